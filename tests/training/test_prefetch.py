"""Reading ahead changes nothing but when it is done."""

from __future__ import annotations

import json
import threading
import time

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from list_order import END, ListOrder

from fourfold.data.lanes import Lanes
from fourfold.data.prefetch import Prefetch

DOCUMENTS = [list(range(size)) for size in (3, 30, 7, 20, 1, 12)]


def lanes_of(order=None, **options):
    options = {"lanes": 2, "length": 5, "memory": "document"} | options
    return Lanes(order or ListOrder(DOCUMENTS), **options)


def same(one, other):
    return all(
        torch.equal(a, b) for a, b in zip(vars(one).values(), vars(other).values(), strict=True)
    )


def readers():
    return [thread for thread in threading.enumerate() if thread.name == "prefetch"]


@given(
    documents=st.lists(
        st.lists(st.integers(0, END - 1), min_size=1, max_size=30), min_size=1, max_size=8
    ),
    memory=st.sampled_from(["window", "document", "stream"]),
    ahead=st.integers(0, 4),
    closed=st.sets(st.integers(0, 12)),
)
@settings(deadline=None)
def test_windows_and_positions_are_those_of_reading_in_place(documents, memory, ahead, closed):
    plain = lanes_of(ListOrder(documents), memory=memory)
    reader = Prefetch(lanes_of(ListOrder(documents), memory=memory), ahead)
    assert reader.state() == plain.state()
    positions = []
    for number in range(12):
        if number in closed:
            reader.close()
            assert not readers()
        assert same(next(reader), next(plain))
        assert reader.state() == plain.state()
        positions.append((json.loads(json.dumps(plain.state())), reader.position))
    for state, position in positions:  # however far it was read since
        assert position.state() == state
    reader.restore(positions[5][0])
    plain.restore(positions[5][0])
    assert all(same(next(reader), next(plain)) for _ in range(6))
    reader.close()
    assert not readers()


def test_no_more_is_read_ahead_than_was_asked_for():
    order = ListOrder([[1, 2, 3, 4, 5]] * 100)
    reader = Prefetch(lanes_of(order, lanes=1), 3)
    next(reader)
    deadline = time.monotonic() + 30
    while order.taken < 4 and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(0.05)  # in which it could read on
    assert order.taken == 4
    reader.close()


class Broken(ListOrder):
    """Cannot be read behind some documents."""

    def next(self):
        if self.taken == 6:
            raise OSError("the wire is cut")
        return super().next()


def test_a_fault_comes_behind_the_windows_before_it_and_stays():
    counts = []
    for ahead in (0, 9):
        reader = Prefetch(lanes_of(Broken(DOCUMENTS), lanes=1), ahead)
        found = []
        for _ in range(2):
            with pytest.raises(OSError, match="the wire is cut"):
                found.extend(reader)
        counts.append(len(found))
        reader.close()
        assert not readers()
    assert counts[0] == counts[1] > 5


def test_an_order_that_ends_ends():
    order = [ListOrder(DOCUMENTS, endless=False) for _ in range(2)]
    found = [*Prefetch(lanes_of(order[0]), 2)]
    assert len(found) == len([*lanes_of(order[1])])
    assert not readers()


def test_a_reader_that_is_held_up_holds_up_nobody_else(monkeypatch):
    monkeypatch.setattr("fourfold.data.prefetch.LEAVE", 0.05)
    arrived, go_on = threading.Event(), threading.Event()

    class Slow(ListOrder):
        def next(self):
            if self.taken == 3:
                arrived.set()
                go_on.wait()
            return super().next()

    reader = Prefetch(lanes_of(Slow(DOCUMENTS), lanes=1), 50)
    plain = lanes_of(lanes=1)
    assert same(next(reader), next(plain))
    state = reader.state()
    assert arrived.wait(60)
    reader.close()
    (thread,) = readers()
    assert thread.daemon
    with pytest.raises(RuntimeError, match="still being read"):
        reader.restore(state)
    go_on.set()
    assert all(same(next(reader), next(plain)) for _ in range(12))
    reader.close()
    assert not readers()

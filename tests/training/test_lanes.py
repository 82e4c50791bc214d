"""Windows of lanes: what is read, what is predicted, and whose memory goes on."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from list_order import END, ListOrder

from fourfold.data.lanes import Lanes
from fourfold.models import FourfoldConfig, FourfoldForCausalLM
from fourfold.ops.pointwise import IGNORED
from fourfold.training.window_loss import window_loss, window_losses

MEMORIES = ("window", "document", "stream")
DOCUMENTS = st.lists(
    st.lists(st.integers(0, END - 1), min_size=1, max_size=30), min_size=1, max_size=8
)
SIZES = {"lanes": st.integers(1, 4), "length": st.integers(2, 9), "windows": st.integers(1, 8)}
memories = pytest.mark.parametrize("memory", MEMORIES)


def by_lane(windows, lanes):
    """(lanes, T) tokens and targets of all windows."""
    return (
        torch.cat([window.tokens.view(lanes, -1) for window in windows], 1),
        torch.cat([window.targets.view(lanes, -1) for window in windows], 1),
    )


def equal(one, other):
    return all(
        torch.equal(a, b) for a, b in zip(vars(one).values(), vars(other).values(), strict=True)
    )


def read(order, memory, *, lanes, length, windows, mine=None):
    reader = Lanes(order, lanes=lanes, length=length, memory=memory, mine=mine)
    return [next(reader) for _ in range(windows)]


@memories
@given(documents=DOCUMENTS, **SIZES)
@settings(deadline=None)
def test_every_token_is_predicted_once_from_those_before_it(
    documents, memory, lanes, length, windows
):
    order = ListOrder(documents)
    tokens, targets = by_lane(
        read(order, memory, lanes=lanes, length=length, windows=windows), lanes
    )
    found = []
    for row_tokens, row_targets in zip(tokens.tolist(), targets.tolist(), strict=True):
        document = []
        for token, target in zip(row_tokens, row_targets, strict=True):
            document.append(token)
            if target == IGNORED:  # only behind an end of text that was read
                assert token == END
                assert memory == "stream"
            elif target == END:
                found.append([*document, END])
            if END in (token, target if memory != "stream" else None):
                document = []
    # All documents that were finished are documents of the order, none more often than taken.
    whole = [[*tokens, END] for tokens in documents]
    taken = [whole[number % len(whole)] for number in range(order.taken)]
    for document in found:
        taken.remove(document)
    assert len(taken) <= lanes  # those that a lane is still reading


@memories
@given(documents=DOCUMENTS, processes=st.integers(1, 3), **SIZES)
@settings(deadline=None)
def test_processes_together_read_what_one_would(
    documents, memory, processes, lanes, length, windows
):
    alone = read(
        ListOrder(documents), memory, lanes=lanes * processes, length=length, windows=windows
    )
    shares = [
        read(
            ListOrder(documents),
            memory,
            lanes=lanes * processes,
            length=length,
            windows=windows,
            mine=range(process * lanes, (process + 1) * lanes),
        )
        for process in range(processes)
    ]
    for number, window in enumerate(alone):
        parts = [share[number] for share in shares]
        assert torch.equal(window.tokens, torch.cat([part.tokens for part in parts], 1))
        assert torch.equal(window.targets, torch.cat([part.targets for part in parts]))
        lengths = torch.cat([part.cu_seqlens.diff() for part in parts])
        assert torch.equal(window.cu_seqlens.diff(), lengths)


@memories
@given(documents=DOCUMENTS, more=st.integers(1, 5), **SIZES)
@settings(deadline=None)
def test_going_on_from_a_saved_position_reads_what_would_have_come(
    documents, memory, more, lanes, length, windows
):
    reader = Lanes(ListOrder(documents), lanes=lanes, length=length, memory=memory)
    for _ in range(windows):
        next(reader)
    position = json.loads(json.dumps(reader.state()))
    again = Lanes(ListOrder(documents), lanes=lanes, length=length, memory=memory)
    again.restore(position)
    assert all(equal(next(reader), next(again)) for _ in range(more))


def test_a_position_of_other_lanes_is_refused():
    reader = Lanes(ListOrder([[1, 2]]), lanes=2, length=4, memory="window")
    with pytest.raises(ValueError, match="one of 3 lanes; here are 2"):
        reader.restore(Lanes(ListOrder([[1, 2]]), lanes=3, length=4, memory="window").state())


@memories
@given(documents=DOCUMENTS, lanes=SIZES["lanes"], length=SIZES["length"])
@settings(deadline=None)
def test_an_order_that_ends_is_read_once(documents, memory, lanes, length):
    reader = Lanes(ListOrder(documents, endless=False), lanes=lanes, length=length, memory=memory)
    found = list(reader)
    predicted = torch.cat([window.targets[window.targets != IGNORED] for window in found])
    wanted = [token for tokens in documents for token in [*tokens[1:], END]]
    assert sorted(predicted.tolist()) == sorted(wanted)
    for window in found:
        assert window.tokens.shape[1] == len(window.targets) == len(window.positions)
        assert len(window.last) == lanes


@memories
@pytest.mark.parametrize("kind", ["atpm", "gated_deltanet", "comba", "attention", "lstm"])
def test_windows_cost_what_reading_the_documents_whole_costs(kind, memory):
    torch.manual_seed(0)
    lanes, length, windows = 3, 16, 9
    numbers = torch.Generator().manual_seed(1)
    documents = [
        torch.randint(END, (size,), generator=numbers).tolist()
        for size in (3, 90, 7, 20, 20, 1, 40, 16, 15, 17)
    ]
    config = FourfoldConfig(
        hidden_size=16, num_attention_heads=1, layer_types=[kind, kind], vocab_size=END + 1
    )
    model = FourfoldForCausalLM(config).double().eval()
    cut = read(ListOrder(documents), memory, lanes=lanes, length=length, windows=windows)
    tokens, targets = by_lane(cut, lanes)
    with torch.no_grad():
        cache = None if memory == "window" else model.new_cache()
        losses = [window_losses(model, window, cache).view(lanes, -1) for window in cut]
        cache = None if memory == "window" else model.new_cache()
        sums = [float(window_loss(model, window, cache)) for window in cut]
    assert sums == pytest.approx([float(loss.sum()) for loss in losses])

    for row_tokens, row_targets, row in zip(tokens, targets, torch.cat(losses, 1), strict=True):
        starts = {0}
        if memory != "stream":
            starts |= {i + 1 for i, target in enumerate(row_targets.tolist()) if target == END}
        if memory == "window":
            starts |= set(range(0, len(row), length))
        bounds = [*sorted(starts - {len(row)}), len(row)]
        for start, stop in pairwise(bounds):
            with torch.no_grad():
                logits = model(row_tokens[None, start:stop], use_cache=False).logits[0]
            expected = F.cross_entropy(
                logits, row_targets[start:stop], reduction="none", ignore_index=IGNORED
            )
            assert torch.allclose(row[start:stop], expected, atol=1e-9, rtol=0)


@pytest.mark.parametrize("kind", ["atpm", "comba", "attention", "lstm"])
def test_lanes_that_have_come_to_their_end_cost_nothing_and_disturb_nobody(kind):
    torch.manual_seed(0)
    config = FourfoldConfig(
        hidden_size=16, num_attention_heads=1, layer_types=[kind], vocab_size=END + 1
    )
    model = FourfoldForCausalLM(config).double().eval()
    long, short = list(range(40)), [3, 1]
    losses = []
    for documents in ([long], [long, short]):
        order = ListOrder(documents, endless=False)
        cache = model.new_cache()
        with torch.no_grad():
            reader = Lanes(order, lanes=len(documents), length=9, memory="document")
            losses.append(sum(float(window_loss(model, window, cache)) for window in reader))
    with torch.no_grad():
        logits = model(torch.tensor([short])).logits[0]
    last = F.cross_entropy(logits, torch.tensor([short[1], END]), reduction="sum")
    assert losses[1] - losses[0] == pytest.approx(float(last), abs=1e-9)


@given(documents=DOCUMENTS, **SIZES)
@settings(deadline=None)
def test_positions_count_what_the_memory_has_read(documents, lanes, length, windows):
    for memory in MEMORIES:
        reader = Lanes(ListOrder(documents), lanes=lanes, length=length, memory=memory)
        before = [0] * lanes
        for _ in range(windows):
            window = next(reader)
            sizes = window.cu_seqlens.diff().tolist()
            parts = window.positions.split(sizes)
            for part, origin, size in zip(parts, window.origins.tolist(), sizes, strict=True):
                start = 0 if origin < 0 else before[origin]
                assert part.tolist() == list(range(start, start + size))
            before = [int(parts[number][-1]) + 1 for number in window.last]


def test_a_memory_that_goes_on_brings_no_gradient_back():
    config = FourfoldConfig(hidden_size=16, num_attention_heads=1, layer_types=["atpm"])
    model = FourfoldForCausalLM(config)
    cache = model.new_cache()
    for window in read(ListOrder([list(range(40))]), "stream", lanes=1, length=8, windows=3):
        model.zero_grad()
        window_loss(model, window, cache).backward()  # twice through one graph would fail


def test_attention_forgets_slots_that_no_lane_can_see():
    config = FourfoldConfig(hidden_size=16, num_attention_heads=1, layer_types=["attention"])
    model = FourfoldForCausalLM(config).eval()
    cache = model.new_cache()
    order = ListOrder([[1] * 12])
    with torch.no_grad():
        for window in read(order, "document", lanes=2, length=5, windows=40):
            window_loss(model, window, cache)
    assert cache.named_tensors()["layers.0.positions"].shape[1] <= 12 + 5

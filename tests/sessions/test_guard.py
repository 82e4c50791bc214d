"""The guard: states that would double for ever stay finite, and nothing of it is silent."""

from __future__ import annotations

import logging

import pytest
import torch
from doubling import STREAM, doubling_model
from zoo import build, random_tokens

from fourfold import ByteTokenizer, Session
from fourfold.sessions import GuardEvent, StateOverflowError
from fourfold.sessions.session import STRIDE

TOKENIZER = ByteTokenizer()


def test_the_layer_really_doubles_its_state_every_two_tokens():
    layer = next(doubling_model().memories())
    x = torch.eye(8)[STREAM[:60]][None] * 8**0.5
    _, before = layer(x[:, :40])
    _, after = layer(x[:, :60])
    growth = float((after.memory.norm() / before.memory.norm()).detach() ** 0.1)
    assert 1.98 < growth < 2.001


def test_guarded_every_state_stays_finite_and_every_event_is_told(caplog):
    session = Session(doubling_model(), TOKENIZER)
    with caplog.at_level(logging.WARNING):
        for start in range(0, len(STREAM), 50):
            session.read(STREAM[start : start + 50])
            assert all(torch.isfinite(x).all() for x in session.state.values())
    events = session.guard_events
    # From 2³² at the first look, the bound of 10⁶ is passed at every multiple of the stride.
    assert [event.token for event in events] == list(range(STRIDE, 401, STRIDE))
    assert all(event.norm > event.bound == 1e6 for event in events)
    assert [(event.layer, event.head) for event in events] == [(0, 0)] * len(events)
    assert len(caplog.records) == len(events)
    assert "scaled back to 1e+06" in caplog.text
    assert isinstance(session.generate(max_new_tokens=3), str)


@pytest.mark.parametrize("bound", (1e-3, 1e26))
def test_every_accepted_bound_keeps_the_doubling_stream_finite(bound, caplog):
    for pieces in (400, 7):
        session = Session(doubling_model(), TOKENIZER, max_state_norm=bound)
        for start in range(0, 400, pieces):
            session.read(STREAM[start : start + pieces])
            assert all(torch.isfinite(x).all() for x in session.state.values())
        assert len(session.guard_events) > 0


def test_a_state_at_the_bound_keeps_its_direction():
    session, free = (Session(doubling_model(), TOKENIZER, max_state_norm=x) for x in (10.0, None))
    session.read(STREAM[:STRIDE])
    free.read(STREAM[:STRIDE])
    state, unbounded = session.state["layers.0.memory"], free.state["layers.0.memory"]
    torch.testing.assert_close(state.norm(), torch.tensor(10.0))
    torch.testing.assert_close(state / state.norm(), unbounded / unbounded.norm())


def test_guarded_reading_in_pieces_equals_reading_at_once():
    whole, pieces = (Session(doubling_model(), TOKENIZER) for _ in range(2))
    whole.read(STREAM)
    for start, end in ((0, 1), (1, 64), (64, 65), (65, 191), (191, 400)):
        pieces.read(STREAM[start:end])
    for name, tensor in whole.state.items():
        torch.testing.assert_close(pieces.state[name], tensor, rtol=1e-3, atol=0)
    assert [event.token for event in pieces.guard_events] == [
        event.token for event in whole.guard_events
    ]


def test_unguarded_the_session_says_so_before_it_returns_nan_and_stays_as_it_was():
    session = Session(doubling_model(), TOKENIZER, max_state_norm=None)
    session.read(STREAM[:100])
    before = {name: tensor.clone() for name, tensor in session.state.items()}
    with pytest.raises(StateOverflowError, match=r"overflowed within .* max_state_norm"):
        session.read(STREAM[100:])
    assert session.tokens_seen == 100
    assert all(torch.equal(tensor, before[name]) for name, tensor in session.state.items())


def test_a_bound_that_is_not_reached_changes_nothing():
    model = build("hybrid of all", vocab_size=259)
    guarded, free = Session(model, TOKENIZER), Session(model, TOKENIZER, max_state_norm=None)
    tokens = random_tokens(1, 300)[0].tolist()
    guarded.read(tokens)
    free.read(tokens)
    assert guarded.guard_events == []
    assert all(torch.equal(x, free.state[name]) for name, x in guarded.state.items())


def test_events_are_kept_in_the_file_forked_and_rolled_back(tmp_path):
    model = doubling_model()
    session = Session(model, TOKENIZER)
    start = session.mark()
    session.read(STREAM[:200])
    assert len(session.guard_events) == 3
    session.save(tmp_path / "s")
    loaded = Session.load(tmp_path / "s", model, TOKENIZER)
    assert loaded.guard_events == session.guard_events == session.fork().guard_events
    assert isinstance(loaded.guard_events[0], GuardEvent)
    assert loaded.max_state_norm == 1e6
    session.rollback(start)
    assert session.guard_events == []

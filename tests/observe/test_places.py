"""A token is seen in its sequence and at its place, whatever becomes of the cache in between."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_observe import model_of, tokens

from fourfold import ByteTokenizer, Session
from fourfold.models.compatibility import CACHE_NAME
from fourfold.observe import observe


def placed(trace):
    """(sequence, position) of every token, in the order in which they were read."""
    return list(zip(trace.sequence.tolist(), trace.position.tolist(), strict=True))


def session_of(*layers):
    return Session(model_of(*layers, vocab_size=259), ByteTokenizer())


def test_a_session_is_one_sequence_from_its_first_token_to_its_last():
    session = session_of("atpm", "gated_deltanet")
    with observe(session.model) as trace:
        session.read("Ann lives in Paris.")
        session.read(" And then, long afterwards, in many more tokens than the guard waits for,")
        assert len(list(session.generate_tokens(max_new_tokens=5))) == 5
    assert session.tokens_seen > 64
    assert placed(trace) == [(0, place) for place in range(session.tokens_seen)]
    trace.label(["now" if place == 30 else "" for place in range(session.tokens_seen)])
    mean, _, count = trace.around("now", 0, "rho", before=20, after=20)
    assert count == 1
    assert not torch.isnan(mean).any()


def test_what_follows_a_rollback_or_a_second_fork_parts_from_the_sequence():
    session = session_of("gated_deltanet")
    with observe(session.model) as trace:
        session.read("abcd")
        mark, other = session.mark(), session.fork()
        session.read("ef")
        session.rollback(mark)
        session.read("gh")
        session.read("i")
        other.read("jkl")
        session.read("m")
    first = [(0, place) for place in range(6)]
    second = [(1, place) for place in range(4, 7)]
    third = [(2, place) for place in range(4, 7)]
    assert placed(trace) == [*first, *second, *third, (1, 7)]


def test_a_loaded_session_goes_on_at_its_place(tmp_path):
    session = session_of("gated_deltanet")
    session.read("abcd")
    session.save(tmp_path / "s")
    loaded = Session.load(tmp_path / "s", session.model, session.tokenizer)
    with observe(session.model) as trace:
        loaded.read("ef")
        loaded.read("g")
    assert placed(trace) == [(0, 4), (0, 5), (0, 6)]


def test_rows_of_a_padded_batch_keep_their_places_when_chosen_and_begun_anew():
    model, ids = model_of("gated_deltanet"), tokens(3, 6)
    mask = torch.tensor([[0, 0, 0, 1, 1, 1], [1, 1, 1, 1, 1, 1], [0, 1, 1, 1, 1, 1]])
    with observe(model) as trace:
        cache = model.new_cache()
        model(ids, attention_mask=mask, cache=cache)
        fork = cache.fork()
        fork.select(torch.tensor([2, 0, 0]))
        model(ids[:, :1], cache=fork)
        cache.resume(torch.tensor([1, -1]))
        model(ids[:2, :2], cache=cache)
    assert cache.lengths.tolist() == [8, 2]
    assert fork.lengths.tolist() == [6, 4, 4]
    assert placed(trace)[:14] == [
        *[(0, place) for place in range(3)],
        *[(1, place) for place in range(6)],
        *[(2, place) for place in range(5)],
    ]
    assert placed(trace)[14:] == [(2, 5), (0, 3), (3, 3), (1, 6), (1, 7), (4, 0), (4, 1)]


def test_a_state_that_a_call_leaves_as_it_is_can_be_gone_on_from_and_parts():
    model, ids = model_of("gated_deltanet"), tokens(1, 4)
    with observe(model) as trace:
        cache = model.new_cache()
        model(ids, cache=cache)
        model(ids[:, :2], cache=cache, use_cache=False)
        model(ids[:, :1], cache=cache)
    assert placed(trace)[4:] == [(0, 4), (0, 5), (1, 4)]


def test_a_cache_in_a_tuple_goes_on_with_its_sequences():
    model, ids = model_of("gated_deltanet"), tokens(2, 5)
    with observe(model) as trace:
        parts = model.model(ids[:, :3], use_cache=True, return_dict=False)
        cache = next(part for part in parts if hasattr(part, "tokens_seen"))
        model(ids[:, 3:], **{CACHE_NAME: cache})
    assert set(placed(trace)) == {(row, place) for row in range(2) for place in range(5)}


def test_a_call_that_fails_leaves_nothing_behind():
    model, ids = model_of("atpm", "gated_deltanet"), tokens(1, 4)

    def broken(*_):
        raise RuntimeError("broken")

    with observe(model) as trace:
        hook = model.model.layers[1].register_forward_pre_hook(broken)
        with pytest.raises(RuntimeError, match="broken"):
            model(ids)
        hook.remove()
        model(ids)
    assert len(trace) == 4
    assert {len(values) for found in trace.values.values() for values in found.values()} == {4}


def test_a_cache_of_other_rows_and_another_cache_are_refused_as_without_an_observer():
    model, ids = model_of("gated_deltanet"), tokens(3, 4)
    cache = model.new_cache()
    model(ids[:1], cache=cache)
    with observe(model):
        with pytest.raises(ValueError, match="state must be of N = 3"):
            model(ids, cache=cache)
        with pytest.raises(ValueError, match="cache must be a FourfoldCache"):
            model(ids, attention_mask=torch.zeros(3, 4), cache=[1])


steps = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.booleans()), max_size=10)


@settings(max_examples=60, deadline=None)
@given(steps)
def test_every_sequence_is_one_way_through_a_tree_of_forks(plan):
    """Each step takes one of the caches that there are, or a fork of it, and reads some tokens."""
    model = model_of("gated_deltanet", hidden_size=4, num_attention_heads=1)
    caches, ways = [model.new_cache()], [[]]
    expected, fresh = [], 0
    with observe(model) as trace:
        for which, count, forked in plan:
            which %= len(caches)
            if forked:
                caches.append(caches[which].fork())
                ways.append(list(ways[which]))
                which = len(caches) - 1
            # Every call reads other tokens, so that a token tells where it stands.
            ids = [1 + (fresh + i) % 39 for i in range(count)]
            names = [fresh + i for i in range(count)]
            fresh += count
            if count:
                model(torch.tensor([ids]), cache=caches[which])
            expected += [(name, len(ways[which]) + i) for i, name in enumerate(names)]
            ways[which] += names
    found = placed(trace)
    assert len(set(found)) == len(found)
    assert [position for _, position in found] == [position for _, position in expected]
    for sequence in set(trace.sequence.tolist()):
        own = [(position, n) for n, (s, position) in enumerate(found) if s == sequence]
        own.sort()
        start = own[0][0]
        names = [n for _, n in own]
        assert any(way[start : start + len(names)] == names for way in ways)
    # Nothing parts without need: as many sequences as ends, or as beginnings with a token.
    tips = {tuple(way) for way in ways if way}
    kept = [way for way in tips if not any(way != o and way == o[: len(way)] for o in tips)]
    assert len(set(trace.sequence.tolist())) == len(kept)

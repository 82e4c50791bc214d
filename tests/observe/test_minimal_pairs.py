"""Of a minimal pair nothing differs but whether the memory knows the key."""

from __future__ import annotations

from random import Random

import pytest

from fourfold.observe.minimal_pairs import minimal_pair
from fourfold.tasks import Source, make_task

CHANGED = {"revise": "update", "overwrite": "update", "forget": "forget"}


@pytest.mark.parametrize("name", ["revise", "overwrite", "rebind", "forget"])
def test_only_the_key_of_the_last_statement_differs_and_only_one_of_them_was_read(name):
    task = make_task(name)
    found = 0
    for number, example in enumerate(Source(task).examples("iid", 0, 60)):
        pair = minimal_pair(task, example, Random(number))
        if pair is None:
            continue
        found += 1
        assert pair.known == example.context[: len(pair.known)]
        assert len({pair.known, pair.unknown, pair.other}) == 3
        for others in (pair.unknown, pair.other):
            assert [a != b for a, b in zip(pair.known, others, strict=True)] == [
                place == pair.key for place in range(len(pair.known))
            ]
            assert others[pair.key] not in pair.known
            assert task.word(others[pair.key]).startswith("k")
        before = pair.known[: pair.start]
        assert pair.known[pair.key] in before
        assert pair.start <= pair.key < len(pair.known)
        assert pair.kind == CHANGED.get(name, pair.kind)
        assert pair.words == tuple(task.word(token) for token in pair.known[pair.start :])
    assert found > 40


def test_the_same_random_state_draws_the_same_and_any_change_may_be_drawn():
    task = make_task("rebind")
    examples = Source(task).examples("iid", 0, 40)
    draws = [
        [minimal_pair(task, example, Random(seed)) for example in examples] for seed in (1, 1, 2)
    ]
    assert draws[0] == draws[1] != draws[2]
    assert {pair.kind for pair in draws[0] if pair} == {"move", "swap"}


def test_where_nothing_is_changed_there_is_none():
    task = make_task("kv_recall")
    assert minimal_pair(task, Source(task).examples("iid", 0, 1)[0], Random(0)) is None

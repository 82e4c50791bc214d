"""Every task asks what it says it asks, and its answers are right."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interpreter import NOTHING, answer, entities, histories

from fourfold.ops.pointwise import IGNORED
from fourfold.tasks import SPLITS, TASKS, Source, make_task
from fourfold.tasks.mixture import NINE
from fourfold.tasks.source import use_of

NAMES = [task.name for task in NINE]
CHANGING = ("revise", "overwrite", "rebind", "forget")


def words(task, tokens):
    return [task.word(token) for token in tokens]


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", NAMES)
def test_every_answer_is_what_the_words_say(name, split):
    task = make_task(name)
    for example in Source(task).examples(split, 0, 30):
        read = words(task, example.context)
        assert example.questions
        for question in example.questions:
            said = words(task, question.answer)
            assert said == [*answer(name, read, words(task, question.prompt)), "."]


@given(index=st.integers(0, 10**9), seed=st.integers(0, 3), name=st.sampled_from(NAMES))
@settings(max_examples=200, deadline=None)
def test_any_example_of_a_mixture_is_one_of_its_tasks_behind_its_symbol(index, seed, name):
    mixture = make_task("mixed_all")
    example = Source(mixture, seed).example("train", index)
    symbol, *rest = words(mixture, example.context)
    assert symbol == f"t{NAMES.index(example.task)}"
    for question in example.questions:
        right = answer(example.task, rest, words(mixture, question.prompt))
        assert words(mixture, question.answer) == [*right, "."]


def test_a_mixture_draws_its_tasks_equally():
    examples = Source(make_task("mixed_all")).examples("train", 0, 1800)
    counts = Counter(example.task for example in examples)
    assert set(counts) == set(NAMES)
    assert min(counts.values()) > 150


@pytest.mark.parametrize("name", ["overwrite", "rebind", "forget"])
def test_a_stale_answer_is_one_that_was_right_before(name):
    task = make_task(name)
    kinds = Counter()
    for example in Source(task).examples("iid", 0, 200):
        held = histories(name, words(task, example.context))
        for question in example.questions:
            (part,) = question.parts
            past = held.get(task.word(question.prompt[1]), [NOTHING])
            stale = {tuple(value) for value in past if value != past[-1]}
            assert {tuple(words(task, tokens)) for tokens in part.stale} == stale
            assert bool(stale) == (len(past) > 1)
            changed = "current" if len(past) > 1 else "untouched"
            assert part.kind == ("empty" if past[-1] == NOTHING else changed)
            kinds[part.kind] += 1
    expected = {"overwrite": 2, "rebind": 3, "forget": 2}[name]
    assert len(kinds) == expected
    assert min(kinds.values()) > 20


def test_an_attribute_is_stale_by_itself():
    task = make_task("revise")
    for example in Source(task).examples("iid", 0, 100):
        held = entities(words(task, example.context))
        for question in example.questions:
            past = held[task.word(question.prompt[1])]
            for part, values in zip(question.parts, past, strict=True):
                assert words(task, part.tokens) == [values[-1]]
                stale = {(value,) for value in values} - {(values[-1],)}
                assert {tuple(words(task, tokens)) for tokens in part.stale} == stale
                assert part.kind == ("current" if len(values) > 1 else "untouched")


@pytest.mark.parametrize("name", TASKS)
def test_no_context_of_a_test_occurs_in_training(name):
    # Few symbols, so that by chance alone almost every context would.
    few = {"keys": 5, "values": 4, "noise": 2}
    small = {"loads": {"iid": (1, 2), "ood": (3, 3), "stress": (4, 4)}, "vocabulary": few}
    settings = {
        "kv_recall": small | {"value_tokens": 1},
        "forget": small | {"value_tokens": 1},
        "copy": small | {"span": 2},
        "selective_copy": small | {"marked": 2},
    }.get(name, {})
    source = Source(make_task(name, settings), seed=0)
    trained = {example.context for example in source.examples("train", 0, 1500)}
    assert trained
    if settings:
        assert len(trained) < 1000  # contexts do repeat here
    for split in ("validation", "iid", "ood", "stress"):
        tested = {example.context for example in source.examples(split, 0, 150)}
        assert not tested & trained, split


def test_a_context_has_the_same_use_in_the_mixture_as_alone():
    for split in SPLITS:
        for example in Source(make_task("mixed_all")).examples(split, 0, 50):
            assert use_of(example) == (split if split in ("train", "validation") else "test")


@pytest.mark.parametrize("name", TASKS)
def test_an_example_hangs_on_task_seed_split_and_number_alone(name):
    source = Source(make_task(name), seed=1)
    forwards = source.examples("train", 0, 20)
    assert [Source(make_task(name), 1).example("train", i) for i in range(19, -1, -1)] == forwards[
        ::-1
    ]
    assert len({example.context for example in forwards}) > 10
    assert Source(make_task(name), 2).examples("train", 0, 20) != forwards
    assert source.examples("validation", 0, 20) != forwards


def test_the_examples_are_those_of_the_committed_results():
    digest = sha256()
    for name in [*NAMES, "mixed_all"]:
        for split in SPLITS:
            digest.update(repr(Source(make_task(name)).examples(split, 0, 25)).encode())
    assert digest.hexdigest() == "7012d15604dece757be41c4cc9c68ec62cb573bb4e905a8bbce190a727f6f69f"


def test_another_process_draws_the_same_examples():
    code = (
        "from fourfold.tasks import *\n"
        "print([Source(make_task(n)).example('stress', 7).context for n in TASKS])"
    )
    for hash_seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        here = [Source(make_task(name)).example("stress", 7).context for name in TASKS]
        assert done.stdout.strip() == str(here)


@pytest.mark.parametrize("name", NAMES)
def test_loads_are_those_of_the_split_and_grow_in_length(name):
    task = make_task(name)
    source = Source(task)
    lengths = {}
    for split in ("train", "iid", "ood", "stress"):
        examples = source.examples(split, 0, 60)
        low, high = task.loads.of(split)
        loads = {example.load for example in examples}
        assert min(loads) >= low
        assert max(loads) <= high
        lengths[split] = [len(example.sequence()[0]) for example in examples]
    assert max(lengths["train"]) <= 100
    if name != "pointer_chase":  # its context is always the whole ring
        assert min(lengths["stress"]) > max(lengths["train"])


@pytest.mark.parametrize("name", TASKS)
def test_what_is_predicted_is_the_answers_and_nothing_else(name):
    task = make_task(name)
    for example in Source(task).examples("train", 0, 20):
        tokens, targets = example.sequence()
        assert len(tokens) == len(targets)
        asked = [token for token in targets if token != IGNORED]
        right = [token for question in example.questions for token in question.answer]
        assert asked == [token for _, token in example.probes] + right
        if example.questions:
            # A target is the token that comes next.
            following = [*tokens[1:], example.questions[-1].end]
            for target, token in zip(targets, following, strict=True):
                assert target in (IGNORED, token)
        assert max(tokens) < task.vocab_size


@pytest.mark.parametrize(
    ("name", "fields", "sentence"),
    [
        ("kv_recal", {}, r"task must be one of kv_recall, .* Did you mean 'kv_recall'\?"),
        ("overwrite", {"key": 3}, r"overwrite has no field 'key'; .* Did you mean 'keys'\?"),
        ("overwrite", {"keys": 0}, "overwrite: keys: Input should be greater than or equal to 1"),
        (
            "kv_recall",
            {"loads": {"iid": (1, 9), "ood": (18, 18), "stress": (36, 36)}},
            "kv_recall at load 36 needs 36 different symbols of the family 'key'; the vocabulary "
            "holds 32",
        ),
        ("pointer_chase", {"nodes": 8}, "8 hops needs more nodes than that"),
        ("rebind", {"bound": 1, "free": 0}, "needs a second bound key"),
        ("copy", {"loads": {"iid": (0, 3), "ood": (4, 4), "stress": (8, 8)}}, "iid must go from 1"),
        ("copy", {"vocabulary": {"noises": 3}}, "copy: vocabulary has no field 'noises'"),
        ("mixed_all", {"tasks": []}, "one or more"),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_a_sentence(name, fields, sentence):
    with pytest.raises(ValueError, match=sentence):
        make_task(name, fields)

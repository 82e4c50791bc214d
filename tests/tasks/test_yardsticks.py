"""Tasks that others published: their published numbers, and answers that follow from the context.

The interpreters here know a task only by its definition: they read a context and say what is to be
named after which place.
"""

from __future__ import annotations

import random as global_random
from collections import Counter
from itertools import groupby
from random import Random
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fourfold.ops.pointwise import IGNORED
from fourfold.tasks import SPLITS, TASKS, Source, make_task
from fourfold.tasks.batch import pack

UNFILLED = {"random_non_queries": False}
ONE_SETTING = [{"length": 16, "pairs": 2}]


def examples(task, split, count):
    return [task.draw(Random(seed), split) for seed in range(count)]


def words(name, context):
    """Words of the tokens of a published vocabulary, as letter and number."""
    task = make_task(name)
    return [task.word(token) for token in context]


def answers_of_mqar(context):
    """With filler that is no token of a pair: every key behind the pairs asks for its value."""
    pairs = next(place for place in range(0, len(context), 2) if context[place + 1] < 4096) // 2
    bound = dict(zip(context[: 2 * pairs : 2], context[1 : 2 * pairs : 2], strict=True))
    behind = range(2 * pairs, len(context))
    return {place: bound[context[place]] for place in behind if context[place] != 0}


def answers_of_pairs(context):
    """A key that was seen asks for its value; here 0 to 7 are keys, 8 to 15 values."""
    bound, answers = {}, {}
    for place in range(0, len(context), 2):
        key = context[place]
        if key in bound:
            answers[place] = bound[key]
            assert context[place + 1 : place + 2] in ((bound[key],), ())
        elif key < 8:
            bound[key] = context[place + 1]
    return answers


def answers_of_motifs(context):
    """A run of key tokens that was seen asks for the run of value tokens behind it; here 0 to 6 are
    keys, 7 to 14 values, 15 is padding."""
    runs, place = [], 0
    for family, tokens in groupby(context, key=lambda token: (token > 6) + (token > 14)):
        run = tuple(tokens)
        runs.append((family, place, run))
        place += len(run)
    families = [family for family, _, _ in runs]
    assert families == [2, *[0, 1] * len(runs)][: len(runs)]
    bound, answers = {}, {}
    for number in range(1, len(runs), 2):
        _, start, key = runs[number]
        read = runs[number + 1][2] if number + 1 < len(runs) else ()
        if key in bound:
            ends = start + len(key) - 1
            answers |= dict(enumerate(bound[key], start=ends))
            whole = len(bound[key]) - (ends + len(bound[key]) == len(context))
            assert read == bound[key][:whole]
        else:
            bound[key] = read
    return answers


def answers_of_copy(context):
    """Blanks behind the sign ask for what is no blank, in order; 14 is blank, 15 the sign."""
    sign = context.index(15)
    copied = [token for token in context[:sign] if token != 14]
    assert set(context[sign + 1 :]) == {14}
    return dict(zip(range(sign + 1, len(context)), copied, strict=True))


def answers_of_induction(context):
    """A symbol that was seen asks for what stood behind it the first time."""
    return {
        place: context[context.index(symbol) + 1]
        for place, symbol in enumerate(context)
        if context.index(symbol) < place
    }


INTERPRETERS = {
    "mqar": answers_of_mqar,
    "mad_recall": answers_of_pairs,
    "mad_noisy_recall": answers_of_pairs,
    "mad_fuzzy_recall": answers_of_motifs,
    "mad_selective_copy": answers_of_copy,
    "induction": answers_of_induction,
}


def published(name):
    """A yardstick as it is by default, but with filler that an interpreter can tell from keys."""
    return make_task(name, UNFILLED if name == "mqar" else {})


@pytest.mark.parametrize("name", INTERPRETERS)
@pytest.mark.parametrize("split", SPLITS)
@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**64))
def test_answers_follow_from_the_context_and_all_that_can_be_asked_is(name, split, seed):
    example = published(name).draw(Random(seed), split)
    places = [place for place, _ in example.probes]
    assert places == sorted(set(places))
    assert dict(example.probes) == INTERPRETERS[name](example.context)
    assert not example.questions


@pytest.mark.parametrize("name", INTERPRETERS)
@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**64))
def test_an_example_depends_on_the_random_state_alone(name, seed):
    task = make_task(name)
    first = [task.draw(Random(seed), split) for split in SPLITS]
    global_random.seed(1)
    np.random.seed(1)
    assert [task.draw(Random(seed), split) for split in SPLITS] == first


@pytest.mark.parametrize("name", INTERPRETERS)
def test_tokens_are_of_the_vocabulary_and_each_has_a_word_of_its_own(name):
    task = make_task(name)
    for split in SPLITS:
        for example in examples(task, split, 3):
            named = {token for _, token in example.probes}
            assert named | set(example.context) <= set(range(task.vocab_size))
    every = [task.word(token) for token in range(task.vocab_size)]
    assert len(set(every)) == task.vocab_size
    for token in (-1, task.vocab_size):
        with pytest.raises(ValueError, match=f"from 0 to {task.vocab_size - 1}; got {token}"):
            task.word(token)


@pytest.mark.parametrize("name", INTERPRETERS)
def test_splits_can_be_kept_apart_and_examples_trained_on(name):
    task = make_task(name)
    drawn = [Source(task).example(split, 0) for split in SPLITS]
    assert len({example.context for example in drawn}) == len(SPLITS)
    batch = pack(drawn)
    assert len(batch.targets) == sum(len(example.probes) for example in drawn)
    assert IGNORED not in batch.targets


def test_all_yardsticks_are_registered_last():
    assert list(TASKS)[-6:] == [*INTERPRETERS]


# MQAR: arXiv 2312.04927 and 2402.18668.


def test_mqar_is_trained_and_tested_at_the_published_lengths_and_pairs():
    task = make_task("mqar")
    drawn = {
        split: Counter((len(example.context), example.load) for example in examples(task, split, n))
        for split, n in (("train", 1500), ("validation", 200), ("ood", 5), ("stress", 5))
    }
    assert set(drawn["train"]) == set(drawn["validation"])
    assert set(drawn["train"]) == {(64, 4), (128, 8), (256, 16), (256, 32), (256, 64)}
    assert drawn["train"][64, 4] / 1500 == pytest.approx(100 / 180, abs=0.05)
    for setting in ((128, 8), (256, 16), (256, 32), (256, 64)):
        assert drawn["train"][setting] / 1500 == pytest.approx(20 / 180, abs=0.03)
    assert set(drawn["ood"]) == {(512, 128)}
    assert set(drawn["stress"]) == {(1024, 256)}


@pytest.mark.parametrize("filled", [True, False])
@pytest.mark.parametrize("split", ["train", "ood", "stress"])
def test_mqar_asks_each_key_once_at_the_start_of_a_slot(filled, split):
    task = make_task("mqar", {"random_non_queries": filled})
    assert task.vocab_size == 8192
    for example in examples(task, split, 20):
        pairs = example.load
        keys, values = example.context[: 2 * pairs : 2], example.context[1 : 2 * pairs : 2]
        assert len(set(keys)) == len(set(values)) == pairs
        assert all(1 <= key < 4096 for key in keys)
        assert all(4096 <= value < 8192 for value in values)
        asked = {example.context[place]: token for place, token in example.probes}
        assert asked == dict(zip(keys, values, strict=True))
        assert all(place >= 2 * pairs and place % 2 == 0 for place, _ in example.probes)


def test_mqar_fills_with_all_tokens_by_default_and_with_one_if_told():
    def filler(task):
        for example in examples(task, "iid", 200):
            asked = {place for place, _ in example.probes}
            behind = range(2 * example.load, len(example.context))
            yield from (example.context[place] for place in behind if place not in asked)

    found = list(filler(make_task("mqar")))
    assert fmean(found) == pytest.approx(8191 / 2, rel=0.03)
    assert min(found) < 100
    assert max(found) > 8091
    assert set(filler(make_task("mqar", UNFILLED))) == {0}


@pytest.mark.parametrize("power_a", [0.01, 1.0])
def test_mqar_draws_slots_by_the_power_law_without_replacement(power_a):
    """Of two keys and six slots: the chance of each pair of slots, in the order of the keys."""
    every = {split: ONE_SETTING for split in ("iid", "ood", "stress")}
    chosen = {"vocabulary_size": 64, "power_a": power_a, "settings": every}
    task, count = make_task("mqar", chosen), 8000
    found = Counter()
    for example in examples(task, "train", count):
        slots = {token: (place - 4) // 2 for place, token in example.probes}
        found[slots[example.context[1]], slots[example.context[3]]] += 1
    weights = np.arange(1, 7) ** (power_a - 1)
    chances = weights / weights.sum()
    for first in range(6):
        for second in range(6):
            expected = chances[first] * chances[second] / (1 - chances[first])
            expected *= first != second
            deviation = (expected / count) ** 0.5
            assert found[first, second] / count == pytest.approx(expected, abs=4.5 * deviation)


# MAD: arXiv 2403.17844.


@pytest.mark.parametrize("name", ["mad_recall", "mad_noisy_recall", "mad_fuzzy_recall"])
def test_mad_recall_has_the_published_lengths(name):
    lengths = {"train": 128, "validation": 128, "iid": 128, "ood": 256, "stress": 512}
    # Of a pair, the value that is asked for at the end is not read; fuzzy recall pads for it.
    unread = 0 if name == "mad_fuzzy_recall" else 1
    for split, length in lengths.items():
        for example in examples(make_task(name), split, 5):
            assert (example.load, len(example.context)) == (length, length - unread)


@pytest.mark.parametrize("name", list(INTERPRETERS)[1:])
@pytest.mark.parametrize("split", SPLITS)
def test_mad_asks_at_the_end_of_every_example(name, split):
    for example in examples(make_task(name), split, 20):
        assert example.probes[-1][0] == len(example.context) - 1


def test_mad_recall_has_eight_keys_and_eight_values():
    drawn = examples(make_task("mad_recall"), "train", 50)
    assert make_task("mad_recall").vocab_size == 16
    assert {token for example in drawn for token in example.context[::2]} == set(range(8))
    assert {token for example in drawn for token in example.context[1::2]} == set(range(8, 16))


def test_mad_recall_lets_keys_share_a_value():
    values = [
        set(example.context[1::2]) for example in examples(make_task("mad_recall"), "iid", 50)
    ]
    assert min(map(len, values)) < 8


def test_mad_noise_takes_the_place_of_one_pair_in_five():
    task = make_task("mad_noisy_recall")
    assert task.vocab_size == 32
    noise = Counter()
    shares = []
    for example in examples(task, "iid", 400):
        pairs = zip(example.context[:-1:2], example.context[1:-1:2], strict=True)
        noisy = [pair for pair in pairs if pair[0] >= 16]
        assert all(token >= 16 for pair in noisy for token in pair)
        noise.update(token for pair in noisy for token in pair)
        shares.append(len(noisy) / 63)
    assert set(noise) == set(range(16, 32))
    # One of the 63 is never noise.
    assert fmean(shares) == pytest.approx(0.2 * 62 / 63, abs=0.012)


def test_mad_noise_leaves_a_key_to_ask_for():
    loads = {"iid": [4, 8], "ood": [4, 8], "stress": [4, 8]}
    task = make_task("mad_noisy_recall", {"noise_share": 0.99, "loads": loads})
    for example in examples(task, "iid", 200):
        assert len(example.context) in (3, 5, 7)
        assert dict(example.probes) == answers_of_pairs(example.context)


def test_mad_motifs_have_one_to_three_tokens_and_keys_three_in_tests():
    task = make_task("mad_fuzzy_recall")
    assert task.vocab_size == 16
    for split in SPLITS:
        sizes = {"k": Counter(), "v": Counter()}
        tokens = {"k": set(), "v": set()}
        for example in examples(task, split, 60):
            read = words("mad_fuzzy_recall", example.context)
            assert "_" not in read[read.index(next(word for word in read if word != "_")) :]
            # The last run may be cut short.
            runs = [(letter, list(run)) for letter, run in groupby(read, key=lambda word: word[0])]
            for letter, run in runs[1:-1]:
                assert len(set(run)) == len(run)
                sizes[letter][len(run)] += 1
                tokens[letter].update(run)
        assert set(sizes["k"]) == ({1, 2, 3} if split == "train" else {3})
        assert set(sizes["v"]) == {1, 2, 3}
        assert {letter: len(found) for letter, found in tokens.items()} == {"k": 7, "v": 8}


def test_mad_copies_sixteen_values_from_among_blanks():
    task = make_task("mad_selective_copy")
    assert task.vocab_size == 16
    lengths = {"train": 256, "validation": 256, "iid": 256, "ood": 512, "stress": 1024}
    for split, length in lengths.items():
        for example in examples(task, split, 20):
            assert len(example.context) == example.load == length
            assert [place for place, _ in example.probes] == list(range(length - 16, length))
            assert example.context[length - 17] == 15
            assert sum(token < 14 for token in example.context) == 16
    drawn = examples(task, "train", 50)
    assert {token for example in drawn for _, token in example.probes} == set(range(14))


def test_mad_spreads_blanks_evenly_before_the_values():
    gaps = np.zeros(16)
    for example in examples(make_task("mad_selective_copy"), "iid", 200):
        places = [place for place, token in enumerate(example.context) if token < 14]
        assert places[-1] == 238
        gaps += np.diff([-1, *places]) - 1
    np.testing.assert_allclose(gaps / 200, 223 / 16, atol=1.2)


SHORT = {split: [3, 3] for split in ("iid", "ood", "stress")}


@pytest.mark.parametrize(
    ("name", "chosen", "message"),
    [
        ("induction", {"vocabulary_size": 8}, "from 2 to the 8 symbols .* got 4 to 64"),
        ("mqar", {"vocabulary_size": 512}, "256 pairs needs .* 512 has 255"),
        ("mqar", {"settings": {"iid": [{"length": 30, "pairs": 8}]}}, "32 or more for 8 .* got 30"),
        ("mqar", {"settings": {"iid": [{"length": 17, "pairs": 1}]}}, "even .* got 17"),
        ("mad_recall", {"loads": SHORT}, "mad_recall must be 4 tokens or more; got 3"),
        ("mad_recall", {"noise_symbols": 15}, "must be 17 or more, .* got 16"),
        ("mad_recall", {"noise_share": 0.5}, "noise_symbols .* must be 1 or more .* got 0"),
        ("mad_fuzzy_recall", {"loads": SHORT}, "must be 12 tokens or more; got 3"),
        ("mad_fuzzy_recall", {"key_motif": 8}, "leave 8 tokens for keys .* leaves 7 and 8"),
        ("mad_selective_copy", {"loads": SHORT}, "must be 34 tokens or more; got 3"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_a_sentence(name, chosen, message):
    with pytest.raises(ValueError, match=message):
        make_task(name, chosen)


@pytest.mark.parametrize(
    ("name", "least"), [("mad_recall", 4), ("mad_fuzzy_recall", 12), ("mad_selective_copy", 34)]
)
def test_the_shortest_example_that_is_accepted_can_be_drawn(name, least):
    loads = {split: [least, least + 5] for split in ("iid", "ood", "stress")}
    task = make_task(name, {"loads": loads})
    for split in ("train", "iid"):
        for example in examples(task, split, 100):
            assert dict(example.probes) == INTERPRETERS[name](example.context)

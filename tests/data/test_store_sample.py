"""A part of a text that stands for all of it."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fourfold.data.store_sample import StoreSample, evenly
from fourfold.data.store_writer import StoreWriter
from fourfold.data.survey import digest_of

END = 999


def store_of(folder, lengths):
    """Documents of so many tokens, each token another."""
    counter = iter(range(1_000_000))
    with StoreWriter(folder / "s", tokenizer="t", vocabulary=1 << 20, end_of_text=END) as writer:
        for length in lengths:
            writer.append(np.array([1000 + next(counter) for _ in range(length)], dtype=np.int64))
            writer.end_document(10 * (length + 1), digest_of(b"x"))
        return writer.commit({})


def read(sample):
    """What is predicted, document by document, and the share of bytes."""
    parts = iter(sample.next, None)
    return [(part, part.tokens(0, part.length).tolist()) for part in parts]


@given(
    lengths=st.lists(st.integers(0, 60), min_size=1, max_size=12).filter(any),
    tokens=st.integers(1, 300),
    longest=st.integers(1, 40),
)
@settings(deadline=None)
def test_as_many_tokens_as_asked_for_are_predicted_once_each(
    tmp_path_factory, lengths, tokens, longest
):
    store = store_of(tmp_path_factory.mktemp("store"), lengths)
    sample = StoreSample(store, tokens=tokens, longest=longest)
    parts = read(sample)
    wanted = min(tokens, sum(lengths))
    assert sample.tokens == sum(len(found) - 1 for _, found in parts) == wanted
    predicted = [
        (part.number, part.start + n) for part, found in parts for n in range(1, len(found))
    ]
    assert predicted == sorted(set(predicted))
    for part, found in parts:
        whole = store.tokens(part.number, 0, store.length(part.number)).tolist()
        assert found == whole[part.start : part.start + part.length]
        assert part.size == 10 * part.length
        assert wanted == sum(lengths) or 1 < part.length <= longest + 1
    if wanted == sum(lengths):
        assert [found for _, found in parts] == [
            store.tokens(number, 0, store.length(number)).tolist() for number in range(len(store))
        ]


def test_parts_lie_all_over_a_long_text(tmp_path):
    store = store_of(tmp_path, [10_000])
    for count in (4, 8, 50):
        starts = [part.start for part, _ in read(StoreSample(store, tokens=20 * count, longest=20))]
        gaps = np.diff([0, *starts, 10_000])
        assert len(starts) == count
        assert gaps.max() < 2.7 * 10_000 / count


def test_documents_come_from_all_over_many(tmp_path):
    store = store_of(tmp_path, [20] * 500)
    numbers = [part.number for part, _ in read(StoreSample(store, tokens=400, longest=64))]
    assert len(numbers) == 20
    assert np.diff([0, *numbers, 500]).max() < 2.7 * 500 / 20


@given(count=st.integers(0, 400))
def test_an_even_order_holds_each_number_once(count):
    assert sorted(evenly(count).tolist()) == [*range(count)]


def test_a_sample_is_gone_on_with(tmp_path):
    store = store_of(tmp_path, [50, 3, 40])
    sample, again = (StoreSample(store, tokens=30, longest=7) for _ in range(2))
    sample.next()
    again.restore(json.loads(json.dumps(sample.state())))
    part = sample.next()
    assert again.next() == part == again.recall(json.loads(json.dumps(part.reference())))

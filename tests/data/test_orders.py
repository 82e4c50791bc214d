"""Every document once in each epoch, and going on from any point is as never having stopped."""

from __future__ import annotations

import json

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from fourfold import ByteTokenizer
from fourfold.data import hub_order
from fourfold.data import prepare as module
from fourfold.data.entry import DataEntry, DatasetEntry
from fourfold.data.hub import HubDataset
from fourfold.data.hub_order import HubOrder
from fourfold.data.prepare import prepare
from fourfold.data.store_order import StoreOrder, permutation
from fourfold.data.store_writer import StoreWriter
from fourfold.data.survey import digest_of


def store_of(folder, texts):
    with StoreWriter(folder, tokenizer="t", vocabulary=259, end_of_text=258) as writer:
        for text in texts:
            writer.append(np.frombuffer(text.encode(), dtype=np.uint8))
            writer.end_document(len(text.encode()), digest_of(text.encode()))
        return writer.commit({})


def text_of(document):
    *tokens, end = document.tokens(0, document.length).tolist()
    assert end == 258
    return bytes(tokens).decode()


def following(order, count):
    return [text_of(order.next()) for _ in range(count)]


def through_json(value):
    return json.loads(json.dumps(value))


TEXTS = [f"text {number}" for number in range(23)]


@pytest.mark.parametrize("shuffle", [False, True])
def test_an_epoch_of_a_store_holds_each_document_once(tmp_path, shuffle):
    order = StoreOrder(store_of(tmp_path / "s", TEXTS), seed=3, shuffle=shuffle)
    epochs = [following(order, len(TEXTS)) for _ in range(3)]
    assert all(sorted(epoch) == sorted(TEXTS) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == (3 if shuffle else 1)
    assert (epochs[0] == TEXTS) != shuffle
    other = StoreOrder(order.store, seed=4, shuffle=shuffle)
    assert (following(other, len(TEXTS)) == epochs[0]) != shuffle


def test_an_order_of_one_epoch_ends(tmp_path):
    order = StoreOrder(store_of(tmp_path / "s", TEXTS), seed=0, shuffle=False, epochs=1)
    assert following(order, len(TEXTS)) == TEXTS
    assert order.next() is None
    assert order.next() is None


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_store_is_gone_on_with_from_every_point(tmp_path, shuffle):
    store = store_of(tmp_path / "s", TEXTS)
    order = StoreOrder(store, seed=1, shuffle=shuffle)
    for _ in range(2 * len(TEXTS) + 2):
        again = StoreOrder(store, seed=1, shuffle=shuffle)
        again.restore(through_json(order.state()))
        document = order.next()
        assert text_of(again.next()) == text_of(document)
        assert text_of(again.recall(through_json(document.reference()))) == text_of(document)
        assert again.state() == order.state()


def test_another_store_seed_or_order_is_refused(tmp_path):
    store, other = (store_of(tmp_path / name, [name, "x"]) for name in "ab")
    state = StoreOrder(store, seed=1, shuffle=True).state()
    for order, words in (
        (StoreOrder(other, seed=1, shuffle=True), "another text"),
        (StoreOrder(store, seed=2, shuffle=True), "seed 1; here is seed 2"),
        (StoreOrder(store, seed=1, shuffle=False), "shuffle True; here is shuffle False"),
    ):
        with pytest.raises(ValueError, match=words):
            order.restore(state)
    for reference in (2, -1, "0", None):
        with pytest.raises(ValueError, match="There is no document"):
            order.recall(reference)


def test_a_permutation_is_the_same_on_every_machine():
    assert permutation(8, 0, 0).tolist() == [0, 3, 7, 5, 1, 2, 6, 4]
    assert sorted(permutation(1000, 1, 2).tolist()) == [*range(1000)]


KINDS = ["parquet", "jsonl"]


def shards(folder, kind, sizes):
    """A data set in a folder, a file for each of ``sizes``; its texts."""
    folder.mkdir()
    texts = [f"document {number}" for number in range(sum(sizes))]
    left = iter(texts)
    for number, size in enumerate(sizes):
        rows = [next(left) for _ in range(size)]
        path = folder / f"{number}.{kind}"
        if kind == "parquet":
            table = pyarrow.table({"id": [*range(size)], "text": rows})
            pyarrow.parquet.write_table(table, path, row_group_size=3)
        else:
            path.write_text("".join(json.dumps({"id": 1, "text": row}) + "\n" for row in rows))
    return texts


def hub_order_of(folder, *, held_back=lambda digest: False, **options):
    options = {"seed": 5, "shuffle": False} | options
    return HubOrder(
        HubDataset(DatasetEntry(name=str(folder))),
        ByteTokenizer(),
        held_back=held_back,
        **options,
    )


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_a_stream_is_gone_on_with_from_every_point(
    tmp_path, monkeypatch, kind, world_size, shuffle
):
    monkeypatch.setattr(hub_order, "BLOCK", 4)
    monkeypatch.setattr(hub_order, "GROUP", 3)
    texts = shards(tmp_path / "d", kind, [7, 1, 9])
    for rank in range(world_size):
        options = {"rank": rank, "world_size": world_size, "shuffle": shuffle}
        order = hub_order_of(tmp_path / "d", **options)
        states, found = [], []
        for _ in range(2 * len(texts) // world_size + 12):
            states.append(through_json(order.state()))
            found.append(text_of(order.next()))
        again = hub_order_of(tmp_path / "d", **options)
        for point, state in enumerate(states[:-8]):
            again.restore(state)
            assert again.state() == state
            assert following(again, 8) == found[point : point + 8]


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("sizes", [[7, 1, 9], [8, 8, 8, 8, 8, 8], [30]])
@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_processes_share_a_stream_without_repeats(tmp_path, sizes, world_size, shuffle):
    texts = shards(tmp_path / "d", "parquet", sizes)
    found = []
    for rank in range(world_size):
        order = hub_order_of(tmp_path / "d", rank=rank, world_size=world_size, shuffle=shuffle)
        epochs = {}
        while True:
            text = text_of(order.next())
            if (epoch := order.state()["epoch"]) == 2:
                break
            epochs.setdefault(epoch, []).append(text)
        found.append(epochs)
    for epoch in (0, 1):
        assert sorted(text for epochs in found for text in epochs[epoch]) == sorted(texts)
    if shuffle:
        assert found[0][0] != found[0][1]
    else:
        assert found[0][0] == found[0][1]


def test_a_document_in_progress_is_found_by_what_it_holds(tmp_path):
    shards(tmp_path / "d", "jsonl", [3])
    order = hub_order_of(tmp_path / "d")
    document = order.next()
    assert document.tokens(2, 5).dtype == np.int64
    again = hub_order_of(tmp_path / "d").recall(through_json(document.reference()))
    assert text_of(again) == text_of(document) == "document 0"
    assert again.length == document.length


def test_another_stream_share_or_order_is_refused(tmp_path):
    shards(tmp_path / "d", "jsonl", [3, 3])
    shards(tmp_path / "other", "jsonl", [3, 4])
    state = hub_order_of(tmp_path / "d", rank=0, world_size=2).state()
    for folder, options, words in (
        ("d", {"world_size": 1}, "one of 2 processes, .* here are 1"),
        ("d", {"world_size": 2, "rank": 1}, "rank 0; here is rank 1"),
        ("d", {"world_size": 2, "seed": 6}, "seed 5; here is seed 6"),
        ("d", {"world_size": 2, "shuffle": True}, "shuffle False; here is shuffle True"),
        ("other", {"world_size": 2}, "another text than"),
    ):
        with pytest.raises(ValueError, match=words):
            hub_order_of(tmp_path / folder, **options).restore(state)


def test_bad_records_of_a_stream_are_counted(tmp_path):
    (tmp_path / "d").mkdir()
    lines = [{"text": "one"}, {"text": None}, {"text": " \n"}, {"text": "two"}]
    (tmp_path / "d" / "a.jsonl").write_text("\n".join(map(json.dumps, lines)))
    order = hub_order_of(tmp_path / "d")
    assert following(order, 2) == ["one", "two"]
    assert order.bad.first == [f"{tmp_path}/d, record 2, holds no text."]
    assert order.empty.first == [f"{tmp_path}/d, record 3, is empty."]
    assert following(order, 3) == ["one", "two", "one"]
    again = hub_order_of(tmp_path / "d")
    again.restore(through_json(order.state()))
    following(again, 9)
    for found in (order, again):  # in later epochs they are the same records
        assert (found.bad.count, found.empty.count) == (1, 1)


def test_a_position_keeps_the_count_of_bad_records(tmp_path, monkeypatch):
    monkeypatch.setattr(hub_order, "BLOCK", 3)
    (tmp_path / "d").mkdir()
    lines = [{"text": None if number % 2 else f"text {number}"} for number in range(40)]
    (tmp_path / "d" / "a.jsonl").write_text("\n".join(map(json.dumps, lines)))
    order, again = (hub_order_of(tmp_path / "d") for _ in range(2))
    for _ in range(4):
        following(order, 3)
        again.restore(through_json(order.state()))
        assert again.bad == order.bad
        assert again.state() == order.state()
    following(again, 9)
    assert again.bad.count == 20
    assert len(again.bad.first) == 10


def test_what_is_held_back_of_a_stream_is_never_trained_on(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "BUCKETS", 4)
    texts = shards(tmp_path / "d", "parquet", [40, 40])
    entry = DataEntry(
        dataset=DatasetEntry(name=str(tmp_path / "d")),
        validation_documents=5,
        cache=tmp_path / "cache",
    )
    found = [
        prepare(entry, ByteTokenizer(), seed=0, shuffle=False, rank=rank, world_size=2)
        for rank in range(2)
    ]
    held = {text for text in texts if module.in_bucket(digest_of(text.encode()))}
    validation = [
        bytes(found[0].validation.tokens(n, 0, found[0].validation.length(n) - 1).tolist()).decode()
        for n in range(len(found[0].validation))
    ]
    assert validation == [text for text in texts if text in held][:5]
    trained = {text for each in found for text in following(each.train, 60)}
    assert trained == set(texts) - held
    assert found[0].fingerprint == found[1].fingerprint
    assert found[0].report.lines()[0].startswith("Validation: 5 documents")

    (tmp_path / "held.txt").write_text(texts[7])
    beside = entry.model_copy(update={"validation": (tmp_path / "held.txt",)})
    order = prepare(beside, ByteTokenizer(), seed=0, shuffle=False).train
    assert set(following(order, 160)) == set(texts) - {texts[7]}
    monkeypatch.setattr(module, "in_bucket", lambda digest: False)
    with pytest.raises(ValueError, match="so small that none of its texts is held back"):
        prepare(
            entry.model_copy(update={"validation_documents": 6}),
            ByteTokenizer(),
            seed=0,
            shuffle=True,
        )


@pytest.mark.parametrize(
    ("fields", "kind", "words"),
    [
        ({"name": "/nowhere"}, OSError, "The data set /nowhere cannot be read: Couldn't find"),
        ({"config": "none"}, ValueError, "cannot be read: BuilderConfig 'none' not found"),
        ({"split": "none"}, ValueError, "cannot be read: Bad split: none"),
        ({"text": "none"}, ValueError, "has no column 'none'; it has id, text."),
    ],
)
def test_what_a_data_set_does_not_have_is_a_sentence(tmp_path, fields, kind, words):
    shards(tmp_path / "d", "parquet", [3])
    with pytest.raises(kind, match=words) as caught:
        HubDataset(DatasetEntry(**{"name": str(tmp_path / "d")} | fields))
    assert "\n" not in str(caught.value)


def test_a_stream_that_breaks_or_is_empty_is_a_sentence(tmp_path):
    shards(tmp_path / "d", "parquet", [3, 3])
    order = hub_order_of(tmp_path / "d")
    (tmp_path / "d" / "1.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(ValueError, match=r"The data set .*d cannot be read: "):
        following(order, 6)
    shards(tmp_path / "two", "parquet", [2])
    with pytest.raises(ValueError, match="has no text for process 2 of 3"):
        hub_order_of(tmp_path / "two", rank=2, world_size=3).next()
    with pytest.raises(ValueError, match="has no text for process 0 of 1"):
        hub_order_of(tmp_path / "two", held_back=lambda digest: True).next()

"""A store is there whole or not at all, and damage to it is a sentence."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fourfold.data.store import TokenStore
from fourfold.data.store_writer import StoreWriter

END = 2


def written(folder, documents, vocabulary=100):
    """A store of lists of tokens, each of twice as many bytes."""
    with StoreWriter(folder, tokenizer="t", vocabulary=vocabulary, end_of_text=END) as writer:
        for number, document in enumerate(documents):
            half = len(document) // 2
            writer.append(np.array(document[:half], dtype=np.uint32))
            writer.append(np.array(document[half:], dtype=np.uint32))
            writer.end_document(2 * len(document), bytes([number] * 16))
        return writer.commit({"source": "here"})


@given(
    documents=st.lists(
        st.lists(st.integers(0, 2**32 - 1), max_size=9), min_size=1, max_size=9
    ).filter(any),
    wide=st.booleans(),
)
@settings(deadline=None, max_examples=30)
def test_what_goes_in_comes_out(tmp_path_factory, documents, wide):
    size = 2**32 if wide else 2**16
    documents = [[token % size for token in document] for document in documents]
    folder = tmp_path_factory.mktemp("store") / "deep" / "store"
    written(folder, documents, vocabulary=size)
    store = TokenStore(folder)
    assert (folder / "tokens.bin").stat().st_size == store.total_tokens * (4 if wide else 2)
    assert len(store) == len(documents)
    for number, document in enumerate(documents):
        length = store.length(number)
        assert store.tokens(number, 0, length).tolist() == [*document, END]
        assert store.tokens(number, length // 2, length).tolist() == [*document, END][length // 2 :]
        assert store.bytes(number) == 2 * len(document)
        assert store.digests[number].tobytes() == bytes([number] * 16)
    assert store.tokens(0, 0, 1).dtype == np.int64
    assert store.total_tokens == sum(map(len, documents)) + len(documents)
    assert store.total_bytes == 2 * sum(map(len, documents))
    assert store.about == {"source": "here"}


def test_documents_without_any_token_are_no_store(tmp_path):
    with pytest.raises(ValueError, match="makes no token of any of these texts"):
        written(tmp_path / "s", [[], []])
    assert not any(tmp_path.iterdir())


def test_places_outside_are_refused(tmp_path):
    store = written(tmp_path / "s", [[5, 6], [7]])
    for number in (-1, 2):
        with pytest.raises(IndexError, match="There are documents 0 to 1"):
            store.length(number)
    for start, stop in ((-1, 2), (2, 1), (0, 4)):
        with pytest.raises(ValueError, match="must lie in order from 0 to 3"):
            store.tokens(0, start, stop)


def test_a_fingerprint_is_of_the_documents(tmp_path):
    prints = {
        written(tmp_path / str(number), documents).fingerprint
        for number, documents in enumerate([[[5], [6]], [[5, 6]], [[5], [6]]])
    }
    assert len(prints) == 2


@pytest.mark.parametrize("name", ["tokens.bin", "index.safetensors", "store.json"])
def test_damage_is_noticed_and_named(tmp_path, name):
    written(tmp_path / "s", [[5, 6]] * 50)
    path = tmp_path / "s" / name
    whole = path.read_bytes()
    for damaged in (b"", whole[:-1], whole[: len(whole) // 2], whole + b"\x00"):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=f"{name} is damaged"):
            TokenStore(tmp_path / "s")
    if name == "index.safetensors":
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(ValueError, match="its SHA-256 is not the one in"):
            TokenStore(tmp_path / "s")
    path.unlink()
    with pytest.raises(ValueError, match=name.replace(".", r"\.")):
        TokenStore(tmp_path / "s")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        TokenStore(tmp_path / "none")


def test_other_versions_and_counts_are_refused(tmp_path):
    written(tmp_path / "s", [[5, 6]] * 50)
    path = tmp_path / "s" / "store.json"
    whole = path.read_text()
    for before, after, words in (
        ('"version": 1', '"version": 99', "is of version 99"),
        ('"tokens": 150', '"tokens": 151', "does not fit the counts"),
        ('"bytes": 200', '"bytes": 2', "does not fit the counts"),
        ('"documents": 50', '"documents": 49', "does not hold the 49 documents"),
        ('"uint16"', '"float16"', "dtype"),
    ):
        assert before in whole
        path.write_text(whole.replace(before, after))
        with pytest.raises(ValueError, match=words):
            TokenStore(tmp_path / "s")


def test_a_writer_that_is_left_leaves_nothing(tmp_path):
    with StoreWriter(tmp_path / "s", tokenizer="t", vocabulary=9, end_of_text=END) as writer:
        writer.append(np.array([1]))
    assert os.listdir(tmp_path) == []


def test_of_two_writers_the_second_takes_what_the_first_wrote(tmp_path):
    first, second = (
        StoreWriter(tmp_path / "s", tokenizer="t", vocabulary=9, end_of_text=END) for _ in range(2)
    )
    for writer in (first, second):
        writer.append(np.array([1, 3]))
        writer.end_document(2, bytes(16))
    stores = [writer.commit({}) for writer in (second, first)]
    assert stores[0].fingerprint == stores[1].fingerprint
    assert os.listdir(tmp_path) == ["s"]


def fill_the_disk(folder, faults):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    try:
        with StoreWriter(folder / "s", tokenizer="t", vocabulary=9, end_of_text=END) as writer:
            for _ in range(100):
                writer.append(np.ones(1 << 16, dtype=np.uint8))
    except OSError as error:
        faults.put(str(error))


def test_a_full_disk_is_a_sentence_and_leaves_nothing(tmp_path):
    fork = multiprocessing.get_context("fork")
    faults = fork.Queue()
    process = fork.Process(target=fill_the_disk, args=(tmp_path, faults))
    process.start()
    assert faults.get(timeout=60) == f"{tmp_path}/s cannot be written: File too large."
    process.join()
    assert os.listdir(tmp_path) == []

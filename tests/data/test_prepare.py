"""From files to both sides of a split, built once, found again, and never half."""

from __future__ import annotations

import gzip
import json
import logging
import multiprocessing
import os
import signal
import time

import pytest
from transformers import AutoTokenizer

from fourfold import ByteTokenizer
from fourfold.data import prepare as module
from fourfold.data.bpe import train_bpe
from fourfold.data.entry import DataEntry, DatasetEntry
from fourfold.data.prepare import prepare

TEXTS = [f"document {number}: é " * (1 + number % 7) for number in range(200)]


@pytest.fixture
def entry(tmp_path):
    folder = tmp_path / "text"
    folder.mkdir()
    lines = [json.dumps({"text": text}) for text in TEXTS[:100]] + ["{", '{"text": ""}']
    (folder / "a.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    for number, text in enumerate(TEXTS[100:]):
        (folder / f"{number}.txt").write_text(text)
    return DataEntry(train=folder, cache=tmp_path / "cache", validation_share=0.05)


def prepared(entry, tokenizer=None, **options):
    return prepare(entry, tokenizer or ByteTokenizer(), seed=0, shuffle=False, **options)


def texts(store, tokenizer=None):
    tokenizer = tokenizer or ByteTokenizer()
    for number in range(len(store)):
        *tokens, end = store.tokens(number, 0, store.length(number)).tolist()
        assert end == tokenizer.eos_token_id
        yield tokenizer.decode(tokens)


def all_files(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("trained", [False, True])
def test_all_text_is_on_one_side_and_comes_back(entry, trained):
    tokenizer = train_bpe(TEXTS, 300) if trained else ByteTokenizer()
    found = prepared(entry, tokenizer)
    train = [*texts(found.train.store, tokenizer)]
    validation = [*texts(found.validation, tokenizer)]
    assert sorted(train + validation) == sorted(TEXTS)
    assert not set(train) & set(validation)
    lines = {*TEXTS[:100]} & {*train}
    assert [text for text in train if text in lines] == [text for text in TEXTS if text in lines]
    assert found.train.store.total_bytes == sum(len(text.encode()) for text in train)


def test_what_was_left_out_is_told(entry, tmp_path):
    (tmp_path / "text" / "z.txt").write_text(TEXTS[150])
    lines = prepared(entry).report.lines()
    assert lines[0].startswith("Training: 19")
    assert [line.replace(str(tmp_path), "") for line in lines[2:]] == [
        "Left out: 1 bad record.",
        '  /text/a.jsonl.gz, line 101, must be a JSON object with a string "text".',
        "Left out: 1 empty text.",
        "  /text/a.jsonl.gz, line 102, is empty.",
        "Kept: 1 document of training with the text of an earlier one.",
    ]


def test_too_little_validation_is_told(entry, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    for name, size in (("a", 1000), ("b", 10_000), ("c", 9999)):
        (small / f"{name}.txt").write_text(name * size)
    lines = prepared(entry.model_copy(update={"train": (small,)})).report.lines()
    assert lines[1].startswith("Validation: 1 document, 1,000 bytes")
    assert lines[2:] == ["Validation holds 4.76 % of the bytes; 5 % was asked for."]


def test_validation_files_take_their_texts_out_of_training(entry, tmp_path):
    (tmp_path / "held.jsonl").write_text(json.dumps({"text": f" {TEXTS[3]}\n"}) + "\n{}\n")
    given = entry.model_copy(update={"validation": (tmp_path / "held.jsonl",)})
    found = prepared(given)
    assert [text.strip() for text in texts(found.validation)] == [TEXTS[3].strip()]
    assert sorted(texts(found.train.store)) == sorted({*TEXTS} - {TEXTS[3]})
    assert found.report.in_validation == 1
    assert found.report.bad == 2
    only = given.model_copy(update={"train": given.validation})
    with pytest.raises(ValueError, match=r"All texts of .*held\.jsonl are in validation too"):
        prepared(only)


def test_a_second_run_finds_what_the_first_built(entry, tmp_path, monkeypatch):
    first = prepared(entry)
    before = all_files(entry.cache)
    monkeypatch.setattr(module, "take_survey", None)
    second = prepared(entry)
    assert second.fingerprint == first.fingerprint
    assert second.report.lines() == first.report.lines()
    assert all_files(entry.cache) == before


def test_all_that_tokens_depend_on_is_in_their_name(entry, tmp_path):
    prints = [prepared(entry).fingerprint]
    for change in ({"validation_share": 0.2}, {"validation": (tmp_path / "text" / "0.txt",)}):
        prints.append(prepared(entry.model_copy(update=change)).fingerprint)
    prints.append(prepared(entry, train_bpe(TEXTS, 300)).fingerprint)
    path = tmp_path / "text" / "0.txt"
    path.write_text(path.read_text().replace("document", "DOCUMENT"))
    prints.append(prepared(entry).fingerprint)
    assert len(set(prints)) == 5


def test_a_damaged_store_is_built_again(entry, caplog):
    first = prepared(entry)
    tokens = first.train.store.folder / "tokens.bin"
    size = tokens.stat().st_size
    os.truncate(tokens, size - 5)
    with caplog.at_level(logging.WARNING):
        assert prepared(entry).fingerprint == first.fingerprint
    assert "is damaged or cut off" in caplog.text
    assert tokens.stat().st_size == size


def test_the_users_cache_is_taken_if_none_is_named(entry, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    found = prepared(entry.model_copy(update={"cache": None}))
    assert tmp_path / "xdg" / "fourfold" / "data" in found.validation.folder.parents
    with pytest.raises(OSError, match=r"cannot be written: .*; see data\.cache"):
        prepared(entry.model_copy(update={"cache": tmp_path / "text" / "0.txt"}))


@pytest.mark.parametrize("given", [{"name": "set"}, DatasetEntry(name="set")])
def test_the_field_of_the_text_is_that_of_a_data_set_too(given):
    assert DataEntry(dataset=given).dataset.text == "text"
    assert DataEntry(dataset=given, text="content").dataset.text == "content"
    own = DataEntry(dataset={"name": "set", "text": "column"}, text="content")
    assert own.dataset.text == "column"
    assert DataEntry(**own.model_dump()) == own


def test_a_tokenizer_without_an_end_of_text_is_refused(entry, tmp_path):
    train_bpe(TEXTS, 300).save_pretrained(tmp_path / "t")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "t")
    tokenizer.eos_token = None
    with pytest.raises(ValueError, match="must have an end-of-text token"):
        prepared(entry, tokenizer)


def build(entry, where, ready):
    if where == "between":
        real = module.StoreWriter.commit

        def commit(writer, about):
            real(writer, about)
            ready.set()
            time.sleep(60)

        module.StoreWriter.commit = commit
    else:
        real = module.write_texts

        def write_texts(*arguments, **options):
            real(*arguments, **options)
            ready.set()
            time.sleep(60)

        module.write_texts = write_texts
    prepared(entry)


@pytest.mark.parametrize("where", ["before the first store is whole", "between"])
def test_a_builder_that_is_killed_leaves_nothing_that_is_taken_for_whole(entry, where):
    fork = multiprocessing.get_context("fork")
    ready = fork.Event()
    process = fork.Process(target=build, args=(entry, where, ready))
    process.start()
    assert ready.wait(60)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    (folder,) = entry.cache.iterdir()
    assert not (folder / "train").exists()
    assert (folder / "validation").exists() == (where == "between")
    assert [*folder.glob(".*.tmp")]
    found = prepared(entry)
    assert sorted([*texts(found.train.store), *texts(found.validation)]) == sorted(TEXTS)
    assert sorted(path.name for path in folder.iterdir()) == ["lock", "train", "validation"]


def build_and_tell(entry, together, prints):
    surveys = []
    real = module.take_survey
    module.take_survey = lambda *arguments: surveys.append(1) or real(*arguments)
    together.wait()
    prints.put((prepared(entry).fingerprint, len(surveys)))


@pytest.mark.parametrize("locks", [True, False])
def test_of_processes_that_start_at_once_one_builds(entry, locks, monkeypatch):
    if not locks:  # as on a file system that has none
        monkeypatch.setattr("fourfold.data.cache.lock", lambda descriptor, wait: False)
    fork = multiprocessing.get_context("fork")
    together, prints = fork.Barrier(3), fork.Queue()
    processes = [
        fork.Process(target=build_and_tell, args=(entry, together, prints)) for _ in range(3)
    ]
    for process in processes:
        process.start()
    found = [prints.get(timeout=60) for _ in processes]
    for process in processes:
        process.join()
    assert len({fingerprint for fingerprint, _ in found}) == 1
    if locks:
        assert sum(surveys for _, surveys in found) == 1
    assert prepared(entry).fingerprint == found[0][0]

"""Text in, two streams out that share no text."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

import pytest

from fourfold.data import load_corpus
from fourfold.data.corpus import END_OF_TEXT, standard_library, tokens_of


def test_the_standard_library_is_megabytes_of_code_without_tests():
    root = Path(sysconfig.get_paths()["stdlib"])
    names = {path.relative_to(root).as_posix() for path in standard_library()}
    assert {"os.py", "json/decoder.py", "argparse.py"} <= names
    assert not [name for name in names if {"test", "tests"} & set(name.split("/"))]
    assert not [name for name in names if "site-packages" in name]
    corpus = load_corpus()
    assert len(corpus.train) + len(corpus.validation) > 5_000_000
    assert corpus.train_documents > 10 * corpus.validation_documents > 0
    assert corpus.notes == []


def texts_of(stream):
    """The documents of a stream."""
    pieces = "".join(chr(token) for token in stream.tolist()).split(chr(END_OF_TEXT))
    assert pieces.pop() == ""
    return pieces


def test_files_of_all_kinds_below_a_folder_are_read_and_what_is_no_text_is_told(tmp_path):
    (tmp_path / "a.txt").write_text("plain " * 9)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.md").write_text("# marked")
    (tmp_path / "c.jsonl").write_text('{"text": "one"}\n{"title": "x"}\n{"text": "two"}\n')
    (tmp_path / "d.csv").write_text("not, read")
    (tmp_path / "E.TXT").write_text("  \n")
    with open(os.fsencode(tmp_path) + b"/caf\xe9.txt", "wb") as file:
        file.write(b"odd name")
    corpus = load_corpus(tmp_path)
    found = [*texts_of(corpus.train), *texts_of(corpus.validation)]
    assert sorted(found) == ["# marked", "odd name", "one", "plain " * 9, "two"]
    assert corpus.train_documents + corpus.validation_documents == 5
    told = " ".join(corpus.notes)
    assert "1 bad record" in told
    assert "c.jsonl, line 2, must be a JSON object" in told
    assert "1 empty text" in told


def test_too_little_validation_is_told(tmp_path):
    for name, size in (("small", 1000), ("large", 10_000), ("other", 9999)):
        (tmp_path / f"{name}.txt").write_text(name[0] * size)
    corpus = load_corpus(tmp_path)
    assert texts_of(corpus.validation) == ["s" * 1000]
    assert corpus.notes == ["Validation holds 4.76 % of the bytes; 5 % was asked for."]


def test_the_same_text_under_two_names_is_on_one_side(tmp_path):
    for number in range(60):
        for copy in "ab":
            (tmp_path / f"{copy}{number}.txt").write_text(f"text {number} " * 9)
    corpus = load_corpus(tmp_path)
    train, validation = set(texts_of(corpus.train)), set(texts_of(corpus.validation))
    assert len(train) + len(validation) == 60
    assert validation
    assert not train & validation


def test_nothing_to_read_is_a_sentence(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        load_corpus(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="holds no text in files that end in"):
        load_corpus(tmp_path)
    (tmp_path / "x.pdf").write_text("x")
    with pytest.raises(ValueError, match="must end in"):
        load_corpus(tmp_path / "x.pdf")
    (tmp_path / "x.txt").write_text("x")
    with pytest.raises(ValueError, match="too little to hold some back"):
        load_corpus(tmp_path / "x.txt")


def test_a_fingerprint_changes_with_a_single_byte(tmp_path):
    (tmp_path / "t.txt").write_text("alpha " * 100)
    before = load_corpus(tmp_path / "t.txt").fingerprint()
    assert load_corpus(tmp_path / "t.txt").fingerprint() == before
    (tmp_path / "t.txt").write_text("alpha " * 99 + "omega ")
    assert load_corpus(tmp_path / "t.txt").fingerprint() != before


def test_streams_are_bytes_with_an_end_after_each_document(tmp_path):
    tokens = tokens_of(["é".encode(), b"x"])
    assert tokens.tolist() == [0xC3, 0xA9, END_OF_TEXT, 0x78, END_OF_TEXT]
    (tmp_path / "one.txt").write_text("abcdefghij" * 10)
    corpus = load_corpus(tmp_path / "one.txt")
    assert texts_of(corpus.train) + texts_of(corpus.validation) == [
        ("abcdefghij" * 10)[:95],
        ("abcdefghij" * 10)[95:],
    ]

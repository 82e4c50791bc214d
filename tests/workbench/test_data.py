"""Text in, two streams out that share no document."""

from __future__ import annotations

import json
import os

import pytest

from fourfold.data import Document, load_corpus, read_documents, standard_library
from fourfold.data.corpus import END_OF_TEXT, split, tokens_of


def test_the_standard_library_is_megabytes_of_code_without_tests():
    documents = standard_library()
    names = {document.name for document in documents}
    assert {"os.py", "json/decoder.py", "argparse.py"} <= names
    assert not [name for name in names if {"test", "tests"} & set(name.split("/"))]
    assert not [name for name in names if "site-packages" in name]
    assert sum(len(document.text) for document in documents) > 5_000_000


def test_files_of_all_kinds_below_a_folder_are_read(tmp_path):
    (tmp_path / "a.txt").write_text("plain é")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.md").write_text("# marked")
    (tmp_path / "c.jsonl").write_text('{"text": "one"}\n\n{"text": "two", "title": "x"}\n')
    (tmp_path / "d.csv").write_text("not, read")
    (tmp_path / "empty.txt").write_text("  \n")
    found = {document.name: document.text for document in read_documents(tmp_path)}
    assert found == {
        "a.txt": "plain é".encode(),
        "sub/b.md": b"# marked",
        "c.jsonl:1": b"one",
        "c.jsonl:3": b"two",
    }
    assert [document.name for document in read_documents(tmp_path / "a.txt")] == ["a.txt"]


@pytest.mark.parametrize(
    "line", ["{", '{"title": "x"}', '"text"', '{"text": 5}', "[]", "[" * 100_000]
)
def test_a_bad_line_is_named(tmp_path, line):
    path = tmp_path / "bad.jsonl"
    path.write_text(json.dumps({"text": "good"}) + "\n" + line + "\n")
    with pytest.raises(ValueError, match=r"bad\.jsonl, line 2, must be a JSON object"):
        read_documents(path)


def test_nothing_to_read_is_a_sentence(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        read_documents(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="holds no text in files that end in"):
        read_documents(tmp_path)
    (tmp_path / "x.pdf").write_text("x")
    with pytest.raises(ValueError, match="must end in"):
        read_documents(tmp_path / "x.pdf")


def test_splitting_depends_on_names_alone_and_shares_no_document():
    documents = [Document(f"{i}.txt", b"x" * (100 + i)) for i in range(50)]
    train, validation = split(documents)
    again = split([*reversed(documents)])
    assert (train, validation) == again
    assert {d.name for d in train}.isdisjoint(d.name for d in validation)
    assert len(train) + len(validation) == 50
    share = sum(len(d.text) for d in validation) / sum(len(d.text) for d in documents)
    assert 0.05 <= share < 0.08


def sizes(*lengths):
    return [Document(f"{index}", b"x" * length) for index, length in enumerate(lengths)]


def test_a_large_document_never_goes_to_validation_whole():
    for documents in (sizes(1_000_000, 1000), sizes(10, 1_000_000, 10), sizes(1000, 1000)):
        train, validation = split(documents)
        held = sum(len(document.text) for document in validation)
        total = sum(len(document.text) for document in documents)
        assert 0 < held <= 0.1 * total
        assert held + sum(len(document.text) for document in train) == total


def test_a_document_is_cut_where_none_is_small_enough():
    (start,), (end,) = split([Document("a", bytes(range(100)))])
    assert start.text + end.text == bytes(range(100))
    assert len(end.text) == 5
    with pytest.raises(ValueError, match="too short to split"):
        split([Document("a", b"x")])


def test_many_documents_are_split_in_reasonable_work():
    train, validation = split(sizes(*[1] * 200_000))
    assert len(validation) == 10_000
    assert len(train) == 190_000


def test_folders_upper_case_endings_and_odd_names_are_no_obstacle(tmp_path):
    (tmp_path / "folder.md").mkdir()
    (tmp_path / "A.TXT").write_text("read")
    with open(os.fsencode(tmp_path) + b"/caf\xe9.txt", "wb") as file:
        file.write(b"also read")
    names = [document.name for document in read_documents(tmp_path)]
    assert sorted(names) == ["A.TXT", "caf\ufffd.txt"]
    assert len(load_corpus(tmp_path).train_documents) > 0


def test_a_fingerprint_changes_with_a_single_byte(tmp_path):
    (tmp_path / "t.txt").write_text("alpha " * 100)
    before = load_corpus(tmp_path / "t.txt").fingerprint()
    assert load_corpus(tmp_path / "t.txt").fingerprint() == before
    (tmp_path / "t.txt").write_text("alpha " * 99 + "omega ")
    assert load_corpus(tmp_path / "t.txt").fingerprint() != before


def test_streams_are_bytes_with_an_end_after_each_document(tmp_path):
    tokens = tokens_of([Document("a", "é".encode()), Document("b", b"x")])
    assert tokens.tolist() == [0xC3, 0xA9, END_OF_TEXT, 0x78, END_OF_TEXT]
    (tmp_path / "one.txt").write_text("abcdefghij" * 10)
    corpus = load_corpus(tmp_path / "one.txt")
    assert corpus.train_documents == ["one.txt (start)"]
    assert len(corpus.train) + len(corpus.validation) == 102

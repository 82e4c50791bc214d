"""Every kind of file gives the same texts, and what is wrong with one is a sentence."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os

import pyarrow
import pyarrow.parquet
import pytest

from fourfold.data.reading import BadRecord, read_texts
from fourfold.data.sources import find_files
from fourfold.data.survey import take_survey

TEXTS = ["plain é", "two\nlines\r\n", "日本語 😀"]


def jsonl(texts, field="text"):
    return "".join(json.dumps({field: text, "id": 1}) + "\n" for text in texts).encode()


def parquet(path, texts, field="text", kind=None):
    column = pyarrow.array(texts, type=kind or pyarrow.string())
    table = pyarrow.table({"id": list(range(len(texts))), field: column})
    pyarrow.parquet.write_table(table, path, row_group_size=2)
    return path.read_bytes()


def zstd(data):
    return pyarrow.Codec("zstd").compress(data, asbytes=True)


@pytest.mark.parametrize(
    ("ending", "compress"),
    [
        ("", bytes),
        (".gz", gzip.compress),
        (".bz2", bz2.compress),
        (".XZ", lzma.compress),
        (".zst", zstd),
    ],
)
def test_all_kinds_and_compressions_give_the_same_texts(tmp_path, ending, compress):
    table = parquet(tmp_path / "raw", TEXTS)
    for name, data in (
        ("a.jsonl", jsonl(TEXTS)),
        ("b.parquet", table),
        ("c.txt", TEXTS[0].encode()),
        ("d.md", TEXTS[1].encode()),
    ):
        (tmp_path / (name + ending)).write_bytes(compress(data))
    found = [
        (record.file.name.removesuffix(ending), record.number, b"".join(record.pieces).decode())
        for record in read_texts(find_files([tmp_path]))
    ]
    tables = [
        (name, n, text) for name in ("a.jsonl", "b.parquet") for n, text in enumerate(TEXTS, 1)
    ]
    assert found == [*tables, ("c.txt", None, TEXTS[0]), ("d.md", None, TEXTS[1])]


@pytest.mark.parametrize(
    "kind", [pyarrow.large_string(), pyarrow.dictionary(pyarrow.int32(), pyarrow.string())]
)
def test_columns_of_strings_of_every_sort_are_read(tmp_path, kind):
    parquet(tmp_path / "a.parquet", TEXTS, field="content", kind=kind)
    found = read_texts(find_files([tmp_path]), "content")
    assert [b"".join(record.pieces).decode() for record in found] == TEXTS


def test_a_file_is_read_once_however_often_it_is_named(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.txt").write_text("a")
    (tmp_path / "b.txt").write_text("b")
    os.symlink(tmp_path / "b.txt", tmp_path / "c.txt")
    files = find_files([tmp_path / "sub" / "a.txt", tmp_path, tmp_path / "sub"])
    assert [file.name for file in files] == ["a.txt", "b.txt"]


def test_a_folder_that_cannot_be_read_is_an_error(tmp_path, monkeypatch):
    for folder in ("a", "b", "b/c"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.txt").write_text("text")
    closed, scandir = tmp_path / "b" / "c", os.scandir

    def refusing(path="."):  # as for a user who has no right to; root has all
        if os.fspath(path) == str(closed):
            raise PermissionError(13, "Permission denied", str(closed))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(OSError, match=rf"{closed} cannot be read: Permission denied\."):
        find_files([tmp_path])


def test_the_mark_before_utf8_is_no_text(tmp_path):
    mark = b"\xef\xbb\xbf"
    (tmp_path / "a.txt").write_bytes(mark + "plain é\ufeff".encode())
    (tmp_path / "b.md.gz").write_bytes(gzip.compress(mark + b"two"))
    (tmp_path / "c.jsonl").write_bytes(mark + jsonl(["three"]))
    (tmp_path / "d.txt").write_bytes(mark)
    found = [b"".join(record.pieces).decode() for record in read_texts(find_files([tmp_path]))]
    assert found == ["plain é\ufeff", "two", "three", ""]


def test_a_text_of_any_length_is_read_in_pieces(tmp_path):
    (tmp_path / "long.txt.gz").write_bytes(gzip.compress(bytes(10_000_000)))
    sizes = [len(piece) for text in read_texts(find_files([tmp_path])) for piece in text.pieces]
    assert sum(sizes) == 10_000_000
    assert max(sizes) <= 1 << 20


def test_bad_records_are_counted_and_the_first_ten_named(tmp_path):
    bad = [b"{", b'{"title": 1}', b'{"text": 5}', b'"text"', b"\xff\xfe", b'{"text": "\\ud800"}']
    lines = [b'{"text": "good"}', *bad, b"", b'{"text": " \\n"}', *[b"{"] * 6, b'{"text": "end"}']
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(lines))
    parquet(tmp_path / "b.parquet", ["good", None])
    (tmp_path / "c.txt").write_bytes("café".encode("latin-1"))
    (tmp_path / "d.txt").write_bytes(b"cut in a character: \xc3")
    for name in ("e.txt", "f.jsonl"):
        (tmp_path / name).touch()
    survey = take_survey(find_files([tmp_path]))
    assert survey.usable.sum() == 3
    assert survey.bad.count == 15
    assert len(survey.bad.first) == 10
    assert "a.jsonl, line 2, must be a JSON object" in survey.bad.first[0]
    assert "a.jsonl, line 7, is no UTF-8: byte 1 fits nowhere" in survey.bad.first[5]
    assert survey.empty.count == 3
    assert [sentence.split("/")[-1] for sentence in survey.empty.first] == [
        "a.jsonl, line 9, is empty.",
        "e.txt is empty.",
        "f.jsonl is empty.",
    ]
    faults = [x.fault for x in read_texts([tmp_path / "b.parquet"]) if isinstance(x, BadRecord)]
    assert faults == [f'{tmp_path}/b.parquet, row 2, must hold a string in its column "text".']
    only = take_survey_fault(tmp_path / "c.txt")
    assert "There is no text in" in only
    assert "is no UTF-8: byte 4" in only


def take_survey_fault(path):
    with pytest.raises(ValueError) as caught:
        take_survey([path])
    return str(caught.value)


@pytest.mark.parametrize("name", ["a.txt.gz", "a.jsonl.bz2", "a.md.xz", "a.txt.zst", "a.parquet"])
def test_a_file_that_is_cut_off_or_damaged_is_named(tmp_path, name):
    path = tmp_path / name
    noise = os.urandom(100_000).hex()
    if name == "a.parquet":
        data = parquet(path, [noise] * 3)
    else:
        compress = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": zstd}
        data = compress[name.split(".")[-1]](jsonl([noise] * 3))
    for damaged in (data[: len(data) // 2], data[:-3], data[3:]):
        path.write_bytes(damaged)
        fault = take_survey_fault(path)
        assert f"{path} is damaged or cut off: " in fault
        assert "\n" not in fault
    path.unlink()
    with pytest.raises(OSError, match="cannot be read: No such file"):
        take_survey([path])


def test_a_table_without_the_column_is_refused(tmp_path):
    path = tmp_path / "a.parquet"
    parquet(path, TEXTS, field="content")
    assert "has no column 'text'; it has id, content." in take_survey_fault(path)
    with pytest.raises(ValueError, match=r"Column 'id' of .* must hold strings; it holds int64"):
        take_survey([path], "id")

"""No text is on both sides, whatever the files are called and however they are cut up."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fourfold.data import split as module
from fourfold.data.report import below_share
from fourfold.data.split import Side, held_bytes, hold_back, leave_out, parts
from fourfold.data.survey import TextMeter, digest_of, take_survey


def sides(files, share):
    """The texts that go to training and to validation."""
    survey = take_survey(files)
    found = {Side.TRAIN: [], Side.VALIDATION: []}
    for part in parts(files, "text", survey, hold_back(survey, share)):
        found[part.side].append(b"".join(part.pieces).decode())
    return found[Side.TRAIN], found[Side.VALIDATION]


def normal(text):
    """What two copies of a text have in common, however their lines and they themselves end."""
    return text.replace("\r\n", "\n").replace("\r", "\n").strip(" \t\n\x0b\x0c")


def filled(path, texts):
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


documents = st.lists(
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=60).filter(str.strip),
    min_size=1,
    max_size=30,
)


@given(texts=documents, share=st.floats(0.01, 0.9), copies=st.integers(1, 3))
@settings(deadline=None, max_examples=60)
def test_both_sides_hold_text_and_share_none(tmp_path_factory, texts, share, copies):
    folder = tmp_path_factory.mktemp("split")
    path = filled(folder / "a.jsonl", [text + " " * n for text in texts for n in range(copies)])
    try:
        train, validation = sides([path], share)
    except ValueError:
        assert max(len(text.encode()) for text in texts) <= 4  # there is nothing to cut
        return
    assert train
    assert validation
    assert not {*map(normal, train)} & {*map(normal, validation)}
    kept = sum(len(text.encode()) for text in train + validation)
    whole = sum(len((text + " " * n).encode()) for text in texts for n in range(copies))
    assert kept == whole or len({*map(str.strip, texts)}) < copies * len(texts)
    held = sum(len(text.encode()) for text in validation)
    assert held <= max(2 * share * whole, 4 + copies)


def test_only_the_texts_decide(tmp_path):
    texts = [f"text {number} " * 5 for number in range(300)]
    one = filled(tmp_path / "one.jsonl", texts)
    several = [filled(tmp_path / f"{n}.jsonl", texts[::-1][n::3]) for n in range(3)]
    first, second = sides([one], 0.05), sides(several, 0.05)
    assert [sorted(side) for side in first] == [sorted(side) for side in second]
    share = sum(map(len, first[1])) / sum(map(len, texts))
    assert 0.05 <= share < 0.06


def test_one_long_text_is_cut_between_characters(tmp_path):
    for text in ("日本語" * 1000, "x" * 99, "é" * 8):
        (tmp_path / "a.txt").write_text(text)
        (train,), (validation,) = sides([tmp_path / "a.txt"], 0.02)
        assert train + validation == text
        assert abs(len(validation.encode()) - max(4, 0.02 * len(text.encode()))) < 4
    (tmp_path / "a.txt").write_text("日")
    with pytest.raises(ValueError, match="too little to hold some back"):
        sides([tmp_path / "a.txt"], 0.02)


def test_copies_of_a_long_text_are_all_cut_at_one_place(tmp_path):
    text = "word " * 200
    for name, spaces in (("a", 0), ("b", 30), ("c", 7)):
        (tmp_path / f"{name}.txt").write_text(text + "\n" * spaces)
    train, (validation,) = sides(sorted(tmp_path.iterdir()), 0.02)
    assert set(train) == {text[: -len(validation)]}
    assert len(train) == 3


@given(
    lines=st.lists(st.text("xé ", min_size=1, max_size=9), min_size=3, max_size=20),
    copies=st.lists(
        st.tuples(st.sampled_from(["\n", "\r\n", "\r"]), st.integers(0, 9), st.integers(0, 9)),
        min_size=2,
        max_size=4,
    ),
)
@settings(deadline=None)
def test_what_is_cut_off_one_copy_is_in_none(tmp_path_factory, lines, copies):
    folder = tmp_path_factory.mktemp("copies")
    text = "start\n" + "\n".join(f"{number} {line}" for number, line in enumerate(lines)) + "\nend"
    for number, (end, before, after) in enumerate(copies):
        content = " " * before + text.replace("\n", end) + " " * after
        (folder / f"{number}.txt").write_bytes(content.encode())
    train, (validation,) = sides(sorted(folder.iterdir()), 0.2)
    rest = len(text) - len(normal(validation))
    for found in train:
        assert text.startswith(normal(found))
        assert len(normal(found)) <= rest


@pytest.mark.parametrize("one", [b"\xef\xbb\xbf", b""])
@pytest.mark.parametrize("end", [b"\r\n", b"\r", b"\n"])
def test_copies_that_differ_in_mark_and_line_ends_are_on_one_side(tmp_path, one, end):
    for number in range(40):
        text = f"number {number}\nline two\n".encode() * 5
        (tmp_path / f"a{number}.txt").write_bytes(text)
        (tmp_path / f"b{number}.txt").write_bytes(one + text.replace(b"\n", end))
    train, validation = sides(sorted(tmp_path.iterdir()), 0.2)
    assert len(train) + len(validation) == 80
    assert validation
    assert not {*map(normal, train)} & {*map(normal, validation)}
    assert not [text for text in train + validation if text.startswith("\ufeff")]


def test_a_notice_beside_books_is_not_all_that_is_held_back(tmp_path):
    books = {"one": "The first of two books. " * 4000, "two": "The other one. " * 6000}
    for name, text in {**books, "notice": "Both are in the public domain."}.items():
        (tmp_path / f"{name}.txt").write_text(text)
    train, validation = sides(sorted(tmp_path.iterdir()), 0.02)
    total = sum(map(len, train + validation))
    assert 0.02 * total - 2 < sum(map(len, validation)) <= 0.02 * total
    assert "Both are in the public domain." in validation
    assert books["two"] in train
    (end,) = (text for text in validation if text in books["one"])
    assert books["one"].removesuffix(end) in train


def test_too_short_a_text_is_not_cut_where_something_is_held_back_and_that_is_said(tmp_path):
    path = filled(tmp_path / "a.jsonl", ["abcd", "e", *["abcd\n"] * 300])
    train, validation = sides([path], 0.01)
    assert validation == ["e"]
    assert len(train) == 301
    survey = take_survey([path])
    held = held_bytes(survey, hold_back(survey, 0.01))
    (sentence,) = below_share(held, int(survey.sizes.sum()), 0.01)
    assert sentence == "Validation holds 0.0664 % of the bytes; 1 % was asked for."


def test_a_cut_may_fall_on_the_edge_of_a_piece(tmp_path, monkeypatch):
    monkeypatch.setattr("fourfold.data.reading.PIECE", 7)
    for length in range(20, 60):
        (tmp_path / "a.txt").write_text("é日" * length)
        (train,), (validation,) = sides([tmp_path / "a.txt"], 0.1)
        assert train + validation == "é日" * length


def read_all(found):
    return [b"".join(part.pieces) for part in found]


def test_texts_of_validation_files_leave_training(tmp_path):
    train = filled(tmp_path / "t.jsonl", ["one", "two\n", "three", "two"])
    held = filled(tmp_path / "v.jsonl", [" two", "four"])
    survey = take_survey([train])
    split = leave_out(survey, take_survey([held]).digests)
    assert read_all(parts([train], "text", survey, split)) == [b"one", b"three"]


def test_text_that_changes_while_it_is_read_is_noticed(tmp_path):
    path = filled(tmp_path / "a.jsonl", [f"text {n}" for n in range(9)])
    survey = take_survey([path])
    split = module.all_to(Side.TRAIN, survey)
    for texts in (["text 0"] * 9, ["text 0"], [f"text {n}" for n in range(10)]):
        filled(path, texts)
        with pytest.raises(ValueError, match="while it was read"):
            read_all(parts([path], "text", survey, split))


SPACES = st.sampled_from([b" \n", b"\r", b"\n", b"\r\n"])


@given(pieces=st.lists(st.binary(max_size=6) | SPACES | st.just("é😀".encode())))
def test_what_is_measured_in_pieces_is_what_the_whole_is(pieces):
    meter, whole = TextMeter(), b"".join(pieces)
    for piece in pieces:
        meter.update(piece)
    meter.finish()
    try:
        whole.decode()
        fault = None
    except UnicodeDecodeError as error:
        fault = error.start
    assert (meter.size, meter.fault, meter.blank) == (len(whole), fault, not whole.strip())
    assert meter.digest() == digest_of(whole)

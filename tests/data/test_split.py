"""No text is on both sides, whatever the files are called and however they are cut up."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fourfold.data import split as module
from fourfold.data.split import Side, hold_back, leave_out, parts
from fourfold.data.survey import TextMeter, digest_of, take_survey


def sides(files, share):
    """The texts that go to training and to validation."""
    survey = take_survey(files)
    found = {Side.TRAIN: [], Side.VALIDATION: []}
    for part in parts(files, "text", survey, hold_back(survey, share)):
        found[part.side].append(b"".join(part.pieces).decode())
    return found[Side.TRAIN], found[Side.VALIDATION]


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
    assert not {text.strip(" ") for text in train} & {text.strip(" ") for text in validation}
    kept = sum(len(text.encode()) for text in train + validation)
    whole = sum(len((text + " " * n).encode()) for text in texts for n in range(copies))
    assert kept == whole or len(validation) == 1
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


@given(pieces=st.lists(st.binary(max_size=6) | st.sampled_from([b" \n", "é😀".encode()])))
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

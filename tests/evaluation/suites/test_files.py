"""Files of examples: what is read, and what is refused with its place."""

from __future__ import annotations

import gzip
import json

import pytest

from fourfold.evaluation.suites.labelled import Labelled, read_labelled
from fourfold.evaluation.suites.questions import Asked, contains, read_questions


def squad(*paragraphs):
    """Paragraphs (passage, question, answers …) as SQuAD has them."""
    return {
        "data": [
            {
                "paragraphs": [
                    {
                        "context": passage,
                        "qas": [
                            {"question": question, "answers": [{"text": text} for text in answers]}
                        ],
                    }
                ]
            }
            for passage, question, *answers in paragraphs
        ]
    }


def test_questions_of_both_forms_are_read_also_compressed(tmp_path):
    (tmp_path / "a.json").write_text(
        json.dumps(
            squad(
                ("The cat sat on a mat.", "Who sat?", "The cat", "cat", "cat"),
                ("Nothing here.", "Who sat?", "dog"),
            )
        )
    )
    assert read_questions(tmp_path / "a.json") == [
        Asked("Who sat?", "The cat sat on a mat.", ("The cat", "cat"))
    ]
    passages = [{"title": "Cats", "text": "A cat sat."}, {"text": "Another."}]
    line = {"question": "who sat", "answers": ["cat"], "ctxs": passages, "more": 1}
    with gzip.open(tmp_path / "b.jsonl.gz", "wt") as file:
        file.write(json.dumps(line) + "\n\n")
    assert read_questions(tmp_path / "b.jsonl.gz") == [
        Asked("who sat", "Cats\nA cat sat.", ("cat",))
    ]


def test_an_answer_counts_whatever_its_case_articles_and_punctuation():
    assert contains("It was the U.S. Navy, of course", ("US navy",))
    assert not contains("It was category", ("cat",))
    assert contains("a 17.", ("42", "17"))


def test_labelled_texts_are_read_from_all_kinds(tmp_path):
    (tmp_path / "a.csv").write_text('text,category\n"one, or\ntwo",x\nthree,y\n')
    wanted = [Labelled("one, or\ntwo", "x"), Labelled("three", "y")]
    assert read_labelled(tmp_path / "a.csv") == wanted
    (tmp_path / "b.tsv").write_text("one\t1\tid\ntwo\t0,1\tid\nthree\t0\tid\n")
    (tmp_path / "names.txt").write_text("y\nx\n")
    wanted = [Labelled("one", "x"), Labelled("three", "y")]
    assert read_labelled(tmp_path / "b.tsv", tmp_path / "names.txt") == wanted
    lines = [json.dumps({"text": one.text, "label": one.label}) for one in wanted]
    (tmp_path / "c.jsonl").write_text("\n".join(lines))
    assert read_labelled(tmp_path / "c.jsonl") == wanted


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "", r"a\.txt must end in \.json \(SQuAD\) or \.jsonl"),
        ("a.json", "{", r"a\.json: this is no JSON"),
        ("a.json", "[]", r"a\.json: must be a JSON object; got list"),
        ("a.json", '{"data": [{"paragraphs": [{"qas": []}]}]}', r"data\.0\.paragraphs\.0\.context"),
        ("a.jsonl", '\n{"question": "who"}', r"a\.jsonl, line 2: answers: Field required"),
        ("a.json", '{"data": []}', "holds no question whose passage answers it"),
        ("a.jsonl", '{"question": "q", "answers": ["a"], "ctxs": []}', "holds no question"),
    ],
)
def test_files_without_questions_are_refused(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        read_questions(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", "", r"must end in one of \.csv, \.tsv, \.jsonl"),
        ("a.csv", "words,label\n1,2\n", "must have a column text, .* it has words, label"),
        ("a.csv", "", "it has none"),
        ("a.csv", "text,label\none,x\ntwo,\n", "line 3: must have a text and a label"),
        ("a.tsv", "one\tx\ntwo\n", "line 2: must have a text, a tab and a label"),
        ("a.jsonl", '{"text": "one", "label": 3}', "line 1: label: Input should be a valid string"),
        ("a.csv", "text,label\none,x\n", "texts of two labels or more"),
    ],
)
def test_files_without_labels_are_refused(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        read_labelled(tmp_path / name)


def test_what_is_not_there_or_has_no_name_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"x\.json is no file"):
        read_questions(tmp_path / "x.json")
    (tmp_path / "b.tsv").write_text("one\t2\n")
    (tmp_path / "names.txt").write_text("y\nx\n")
    with pytest.raises(ValueError, match=r"the label '2', .* number of no line of .*names\.txt"):
        read_labelled(tmp_path / "b.tsv", tmp_path / "names.txt")


def test_an_answer_that_the_passage_holds_comes_first_and_empty_ones_go(tmp_path):
    (tmp_path / "a.json").write_text(
        json.dumps(squad(("The cat sat.", "Who?", "dog", "", "the cat", "...")))
    )
    (asked,) = read_questions(tmp_path / "a.json")
    assert asked.answers == ("the cat", "dog")


def test_words_end_where_letters_end_in_any_script():
    assert contains("他出生于北京，后来搬家", ("北京",))
    assert contains("She was called the “Iron Lady”.", ("Iron Lady",))
    assert not contains("Ironside", ("Iron",))


def test_a_table_of_a_spreadsheet_is_read_and_a_broken_one_named(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbftext,label\none,x\ntwo,y\n")
    assert read_labelled(tmp_path / "a.csv")[0] == Labelled("one", "x")
    (tmp_path / "b.csv").write_text('text,label\n"one,x\n' + "two,y\n" * 40_000)
    with pytest.raises(ValueError, match=r"b\.csv, line \d+: "):
        read_labelled(tmp_path / "b.csv")

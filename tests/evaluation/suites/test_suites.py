"""What the suites ask can be answered from what they show, and from nothing else."""

from __future__ import annotations

import json
import re
from statistics import fmean

import pytest
import torch
import torch.nn.functional as F
from scripted_reading import TOKENIZER, scripted
from small_models import llama, ours
from transformers import GPT2Config, GPT2LMHeadModel

from fourfold.evaluation.suites import SUITES, make_suite

PEOPLE = {f"person{n:02d}": f"town{n:02d}" for n in range(40)}


def passage(person):
    return f"{person} was born long ago. The home of {person} is {PEOPLE[person]}, by the sea."


@pytest.fixture
def questions(tmp_path):
    """One question about each of forty people, with a passage about each."""
    paragraphs = [
        {
            "context": passage(person),
            "qas": [{"question": f"Where does {person} live?", "answers": [{"text": town}]}],
        }
        for person, town in PEOPLE.items()
    ]
    path = tmp_path / "questions.json"
    path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    return path


@pytest.fixture
def texts(tmp_path):
    """Sixteen texts of each of three kinds, each text of one of a kind's words."""
    words = {"sorry": "regret", "glad": "joy", "why": "wonder"}
    rows = [
        {"text": f"{word} number {number}", "label": label}
        for word, label in words.items()
        for number in range(16)
    ]
    path = tmp_path / "texts.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def small(layer, **fields):
    return ours(layer, mosaic_window=16, mosaic_delay=8, **fields)


def run(monkeypatch, suite, rule, model=None):
    """Rows of a suite answered by ``rule``, and what was read before each answer."""
    kind = scripted(rule)
    monkeypatch.setattr(f"{type(suite).__module__}.Reading", kind)
    return list(suite.run(model or small("atpm"), TOKENIZER)), kind.read


def home(text):
    """What the last question is answered by what stands before it; "unknown" if nothing does."""
    person = re.findall(r"Where does (\w+) live", text)[-1]
    told = re.search(rf"The home of {person} is (\w+)", text)
    return told[1] if told else "unknown"


def test_facts_are_told_by_the_open_book_alone(monkeypatch, questions):
    suite = make_suite("knowledge", questions, ["examples=30"])
    rows, read = run(monkeypatch, suite, home)
    assert [row["part"] for row in rows] == ["facts, closed book", "facts, open book"]
    assert [row["accuracy"] for row in rows] == [0.0, 1.0]
    assert {row["of"] for row in rows} == {30}
    assert {row["chance"] for row in rows} == {0.25}
    assert all(text.endswith("\nAnswer:") for text in read)


def test_a_model_with_a_long_memory_is_asked_again_without_it(questions, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("All of this is text, and it goes on for a while. " * 20)
    changes = ["examples=4", f"text={text}", "length=64", "windows=3"]
    model = small("mosaic", mosaic_training_delay=[8, 8])
    rows = list(make_suite("knowledge", questions, changes).run(model, TOKENIZER))
    parts = ["facts, closed book", "facts, open book", "text"]
    assert [(row["part"], row["disabled"]) for row in rows] == [
        (part, silent) for silent in ([], ["long"]) for part in parts
    ]
    stream = torch.tensor(list(text.read_bytes()))
    starts = [number * (len(stream) - 64) // 2 for number in range(3)]
    for row, names in ((rows[2], ()), (rows[5], ("long",))):
        with model.without(*names), torch.no_grad():
            losses = [
                F.cross_entropy(
                    model(stream[None, start : start + 64]).logits[0, :-1],
                    stream[start + 1 : start + 64],
                )
                for start in starts
            ]
        assert row["nats"] == pytest.approx(float(torch.stack(losses).mean()), rel=1e-5)
        assert row["tokens"] == 3 * 63
        assert [part["tokens"] for part in row["by_position"]] == [3, 6, 12, 24, 48, 96]
    assert rows[2]["nats"] != rows[5]["nats"]
    # Nothing as near as eight tokens is in the long memory.
    for part in range(3):
        same = [row["by_position"][part]["nats"] for row in (rows[2], rows[5])]
        assert same[0] == pytest.approx(same[1], rel=1e-5)
    assert not any(layer.disabled for layer in model.memories())


def test_any_other_causal_model_is_asked_once(questions):
    rows = list(make_suite("knowledge", questions, ["examples=4"]).run(llama(), TOKENIZER))
    assert [row["disabled"] for row in rows] == [[], []]


@pytest.mark.parametrize("times", [1, 4])
def test_documents_hold_the_answer_once_and_fill_the_length(monkeypatch, questions, times):
    changes = ["length=400", f"times=[{times}]", "examples=30"]
    suite = make_suite("new-knowledge", questions, changes)
    (row,), read = run(monkeypatch, suite, home)
    assert row["accuracy"] == 1.0
    assert row["answer_nats"] == 0.0
    assert row["unread_nats"] == 1.0
    assert row["times"] == times
    documents = len(passage("person00")) + 2
    depths = []
    for text in read[::2]:
        assert 400 * times - documents < len(text) <= 400 * times
        person = re.findall(r"Where does (\w+) live", text)[-1]
        told = re.findall(r"The home of (\w+) is", text)
        assert told.count(person) == 1
        assert len(set(told)) == len(told) == (len(text) - 37) // documents
        depths.append(told.index(person) / len(told))
    assert row["tokens"] == fmean(len(text) for text in read[::2])
    assert min(depths) < 0.3
    assert max(depths) > 0.6
    # Without the documents, the question alone.
    assert all(text.startswith("Question: ") for text in read[1::2])


def box(text):
    number = re.findall(r"number in box (\d+)\?", text)[-1]
    told = re.search(rf"The number in box {number} is (\d+)\.", text)
    return told[1] if told else "unknown"


def test_needles_are_hidden_anywhere_in_the_text(monkeypatch, tmp_path):
    hay = tmp_path / "hay.txt"
    hay.write_text("".join(f"{number} straws. " for number in range(400)))
    suite = make_suite("new-knowledge", hay, ["kind=needles", "length=500", "examples=30"])
    rows, read = run(monkeypatch, suite, box)
    assert [row["accuracy"] for row in rows] == [1.0] * 4
    assert [row["tokens"] for row in rows] == [500, 1000, 2000, 4000]
    texts = read[::2]
    assert {len(re.findall(r"number in box \d+ is", text)) for text in texts} == {4}
    places = [text.index(f"is {box(text)}.") / len(text) for text in texts]
    assert min(places) < 0.1
    assert max(places) > 0.8
    # But for the needles, the text is whole.
    for text in texts:
        left = re.sub(r"\nThe number in box \d+ is \d+\.\n", "", text).split("\nQuestion")[0]
        assert left in hay.read_text()


def named(text):
    """The label of the shots that begin with the same word as what is asked about."""
    *shots, asked = re.findall(r"Text: (\w+)", text)
    labels = re.findall(r"Label: (\w+)", text)
    return dict(zip(shots, labels, strict=True)).get(asked, "unknown")


def test_shots_tell_the_names_real_or_not(monkeypatch, texts):
    suite = make_suite("icl", texts, ["shots=[1, 4]", "orders=2", "examples=20"])
    rows, read = run(monkeypatch, suite, named)
    conditions = [(row["labels"], row["shots"]) for row in rows]
    assert conditions == [("real", 1), ("real", 4), ("anonymous", 1), ("anonymous", 4)]
    assert [row["accuracy"] for row in rows] == [1.0] * 4
    assert {row["chance"] for row in rows} == {1 / 3}
    assert all(row["orders"] == [1.0, 1.0] and row["of"] == 40 for row in rows)
    # Each text is read behind the same shots in an order, and other shots in another.
    shown = [text[: text.rindex("Text:")] for text in read]
    assert [len(set(shown[start : start + 20])) for start in range(0, 160, 20)] == [1] * 8
    assert len(set(shown)) == 8
    asked = [text[text.rindex("Text:") :] for text in read]
    assert all(asked[start : start + 20] == asked[:20] for start in range(0, 160, 20))
    for number, (labels, count) in enumerate(conditions):
        for text in shown[40 * number : 40 * number + 40]:
            found = re.findall(r"Label: (\w+)", text)
            names = {"class_00", "class_01", "class_02"}
            assert set(found) == (names if labels == "anonymous" else {"regret", "joy", "wonder"})
            assert all(found.count(name) == count for name in found)
            # No shot is ever asked for.
            assert not {line for line in text.split("\n") if line.startswith("Text")} & {
                one.split("\n")[0] for one in asked
            }


def test_both_kinds_of_names_stand_at_the_same_shots(monkeypatch, texts):
    suite = make_suite("icl", texts, ["shots=[1, 4]", "orders=2", "examples=3"])
    _, read = run(monkeypatch, suite, named)
    unnamed = [re.sub(r"Label: \w+", "Label:", text) for text in read]
    real, anonymous = unnamed[: len(read) // 2], unnamed[len(read) // 2 :]
    assert real == anonymous


def test_anonymous_names_are_given_out_anew_in_every_order(monkeypatch, texts):
    suite = make_suite("icl", texts, ["shots=[1]", "orders=8", "examples=1", "labels=[anonymous]"])
    _, read = run(monkeypatch, suite, named)
    given = set()
    for text in read:
        *shots, _ = re.findall(r"Text: (\w+)", text)
        given.add(tuple(sorted(zip(shots, re.findall(r"Label: (\w+)", text), strict=True))))
    assert len(given) > 2


@pytest.mark.parametrize("name", SUITES)
def test_a_suite_draws_the_same_for_any_model_and_another_with_another_seed(
    monkeypatch, name, questions, texts
):
    data = texts if name == "icl" else questions
    changes = ["examples=5", *(["length=400", "times=[1, 2]"] if name == "new-knowledge" else [])]
    read = [
        run(monkeypatch, make_suite(name, data, [*changes, f"seed={seed}"]), str, model)[1]
        for seed, model in ((0, small("atpm")), (0, llama()), (1, llama()))
    ]
    assert read[0] == read[1] != read[2]


@pytest.mark.parametrize("layer", ["atpm", "attention"])
@pytest.mark.parametrize("name", SUITES)
def test_real_models_give_rows_that_json_holds(name, layer, questions, texts):
    data = texts if name == "icl" else questions
    changes = ["examples=3", *(["length=400", "times=[1, 2]"] if name == "new-knowledge" else [])]
    rows = list(make_suite(name, data, changes).run(small(layer), TOKENIZER))
    assert len(rows) == {"knowledge": 2, "new-knowledge": 2, "icl": 8}[name]
    assert json.loads(json.dumps(rows)) == rows
    assert all(0 <= row["accuracy"] <= 1 for row in rows)


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("knowlege", [], r"suite must be one of .*; got 'knowlege'. Did you mean 'knowledge'\?"),
        ("icl", ["shot=3"], r"icl has no field 'shot'; .* Did you mean 'shots'\?"),
        ("icl", ["shots=[9]"], "shots must be at most 8, as many as there are for"),
        ("icl", ["classes=4"], "classes must be at most the 3 of"),
        ("knowledge", ["choices=41"], "choices must be at most 40, the different answers"),
        ("knowledge", ["disable=[far]"], None),
        ("new-knowledge", ["disable=[long]"], "disable takes names .* none in this model"),
        ("new-knowledge", ["length=50"], "no question of .* fits into 50 tokens"),
        (
            "new-knowledge",
            ["length=400", "times=[8]"],
            "times must ask for no more tokens than there are to read; of 3200",
        ),
        ("new-knowledge", ["kind=needle"], "Input should be 'documents' or 'needles'"),
        ("new-knowledge", ["kind=needles", "length=90000"], "no more text than the"),
    ],
)
def test_what_cannot_be_asked_is_refused(name, changes, message, questions, texts, tmp_path):
    data = texts if name == "icl" else questions
    if "kind=needles" in changes:
        data = tmp_path / "hay.txt"
        data.write_text("straw " * 50)
    if message is None:
        assert len(list(make_suite(name, data, changes).run(small("atpm"), TOKENIZER))) == 2
        return
    with pytest.raises(ValueError, match=message):
        list(make_suite(name, data, changes).run(small("atpm"), TOKENIZER))


def test_memories_of_another_library_cannot_be_silenced(questions):
    suite = make_suite("new-knowledge", questions, ["disable=[long]", "length=400"])
    with pytest.raises(ValueError, match="empty for a LlamaForCausalLM"):
        list(suite.run(llama(), TOKENIZER))


def test_an_open_book_is_asked_with_wrong_answers_of_its_own(monkeypatch, tmp_path):
    """So that naming anything that was read is not enough."""
    passages = [
        {
            "context": f"Here are one{n}, two{n}, three{n} and four{n}.",
            "qas": [
                {"question": f"What is {word} of {n}?", "answers": [{"text": f"{word}{n}"}]}
                for word in ("one", "two", "three", "four")
            ],
        }
        for n in range(5)
    ]
    path = tmp_path / "questions.json"
    path.write_text(json.dumps({"data": [{"paragraphs": passages}]}))
    offered = []
    kind = scripted(str)
    kind.nats = lambda self, rows: offered.append([bytes(r).decode() for r in rows]) or [1.0] * 4
    suite = make_suite("knowledge", path, ["examples=20"])
    monkeypatch.setattr(f"{type(suite).__module__}.Reading", kind)
    list(suite.run(small("atpm"), TOKENIZER))
    for choices in offered:
        assert len({choice[-1] for choice in choices}) == 1
        assert len(set(choices)) == 4


def test_a_memory_that_a_model_does_not_have_is_refused_where_it_has_others(questions):
    suite = make_suite("knowledge", questions, ["examples=2", "disable=[lnog]"])
    with pytest.raises(ValueError, match="which are long, short; got 'lnog'"):
        list(suite.run(small("mosaic", mosaic_training_delay=[8, 8]), TOKENIZER))


def test_the_same_questions_are_asked_at_every_length(monkeypatch, questions):
    changes = ["length=200", "times=[1, 2, 4]", "examples=20"]
    _, read = run(monkeypatch, make_suite("new-knowledge", questions, changes), home)
    asked = [re.findall(r"Where does (\w+) live", text)[-1] for text in read[::2]]
    assert asked[:20] == asked[20:40] == asked[40:]
    assert len(set(asked)) == 20


def test_of_two_labels_one_may_begin_with_the_other(monkeypatch, tmp_path):
    texts = tmp_path / "texts.jsonl"
    rows = [
        {"text": f"{n} {label}", "label": label} for label in ("fee", "fee card") for n in range(8)
    ]
    texts.write_text("\n".join(map(json.dumps, rows)))
    asked = []
    kind = scripted(str)
    kind.nats = lambda self, rows: asked.append([bytes(r).decode() for r in rows]) or [1.0, 2.0]
    suite = make_suite("icl", texts, ["shots=[1]", "orders=1", "labels=[real]", "examples=3"])
    monkeypatch.setattr(f"{type(suite).__module__}.Reading", kind)
    list(suite.run(small("atpm"), TOKENIZER))
    assert asked[0] == [" fee\n", " fee card\n"]


def test_tokens_that_a_tokenizer_puts_first_are_read_first(monkeypatch, questions):
    class Opened(type(TOKENIZER)):
        def build_inputs_with_special_tokens(self, token_ids_0, token_ids_1=None):
            return [self.bos_token_id, *token_ids_0]

    seen = []
    kind = scripted(str)
    read_first = kind.of.__func__
    kind.of = classmethod(
        lambda cls, model, tokens: seen.append(tokens[0]) or read_first(cls, model, tokens[1:])
    )
    suite = make_suite("knowledge", questions, ["examples=2"])
    monkeypatch.setattr(f"{type(suite).__module__}.Reading", kind)
    list(suite.run(small("atpm"), Opened()))
    assert set(seen) == {257}


def test_text_longer_than_a_model_can_read_is_a_sentence(questions, tmp_path):
    (tmp_path / "text.txt").write_text("words " * 200)
    config = GPT2Config(vocab_size=259, n_positions=300, n_embd=16, n_layer=1, n_head=2)
    changes = ["examples=1", f"text={tmp_path / 'text.txt'}", "length=400"]
    with pytest.raises(ValueError, match=r"GPT2LMHeadModel .* cannot read 400 tokens"):
        list(make_suite("knowledge", questions, changes).run(GPT2LMHeadModel(config), TOKENIZER))

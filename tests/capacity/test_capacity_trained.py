"""What trained models are asked, and what is beside it."""

from __future__ import annotations

import pytest
from zoo import build

from fourfold.capacity import trained, trained_capacity, trained_interference
from fourfold.evaluation.answers import Answer, decode
from fourfold.evaluation.scores import summarise
from fourfold.tasks import Source, make_task
from fourfold.tasks.source import use_of


def small_model(layer="gated_deltanet"):
    return build(layer, vocab_size=make_task("kv_recall").vocab_size)


def test_a_trained_model_is_asked_at_each_number_of_items():
    model = small_model("lstm")
    rows = list(trained_capacity(model, "kv_recall", {"value_tokens": 1}, items=[2, 5], examples=6))
    assert [row["items"] for row in rows] == [2, 5]
    task = make_task(
        "kv_recall",
        {"value_tokens": 1, "loads": {s: (5, 5) for s in ("iid", "ood", "stress")}},
    )
    drawn = Source(task).examples("iid", 0, 6)
    assert rows[1] == {"items": 5, **summarise(drawn, decode(model, drawn))}
    with pytest.raises(ValueError, match="needs 33 different symbols of the family 'key'"):
        list(trained_capacity(model, "kv_recall", {}, items=[33]))
    with pytest.raises(ValueError, match="induction has 64 symbols and the model 90"):
        list(trained_capacity(model, "induction", {}, items=[4]))


def test_beside_a_trained_model_stands_an_ideal_memory_of_its_size():
    model = small_model()
    memory = trained.ideal_memory(model, make_task("kv_recall", {"value_tokens": 2}))
    assert (memory.rule, memory.heads, memory.address_dim) == ("delta", 2, 8)
    assert memory.columns == 2 * 16
    assert memory.codebook == 16 + 16**2
    linear = trained.ideal_memory(small_model("linear_attention"), make_task("kv_recall"))
    assert linear.rule == "linear"
    rows = list(
        trained_capacity(model, "kv_recall", {"value_tokens": 1}, items=[1, 24], examples=2)
    )
    assert rows[0]["ideal"] > 0.99
    assert rows[1]["ideal"] < 0.8
    assert 0 < rows[1]["ideal_se"] < 0.05


def remembering(last, seen):
    """A reader that knows the last so many writes of a context of keys and single values."""

    def answers(model, examples):
        for number, example in enumerate(examples):
            seen.append(example)
            writes = [
                example.context[place : place + 2] for place in range(0, len(example.context), 2)
            ]
            known = dict(writes[-last:])
            for question in example.questions:
                value = known.get(question.prompt[1], -1)
                yield Answer(number, question, (value, question.end), question.answer)

    return lambda model, examples: list(answers(model, examples))


@pytest.mark.parametrize("task", ["kv_recall", "overwrite"])
def test_further_writes_name_none_of_the_items_that_are_asked(monkeypatch, task):
    seen = []
    monkeypatch.setattr(trained, "decode", remembering(1000, seen))
    settings = {"value_tokens": 1}
    rows = list(trained_interference(small_model(), task, settings, stored=6, examples=5))
    assert all(row["exact_match"] == 1.0 for row in rows)
    assert [(row["kind"], row["further"]) for row in rows] == [
        (kind, count) for kind in ("new", "again") for count in (0, 1, 2, 4, 8, 16)
    ]
    for example in seen:
        assert use_of(example) == "test"
        keys = list(example.context[::2])
        assert len(set(keys[:6])) == 6
        for question in example.questions:
            assert question.prompt[1] in keys[:3]
            assert keys.count(question.prompt[1]) == 1
    again = seen[-5:]
    assert all(set(example.context[::2]) == set(example.context[:12:2]) for example in again)


def test_interference_is_seen_from_where_a_memory_forgets(monkeypatch):
    monkeypatch.setattr(trained, "decode", remembering(10, []))
    rows = list(
        trained_interference(small_model(), "kv_recall", {"value_tokens": 1}, stored=6, examples=20)
    )
    for row in rows:
        # Items 1 to 3 of 6 are asked; of the last ten writes, those before the further ones count.
        kept = min(max(10 - row["further"] - 3, 0), 3)
        assert row["exact_match"] == pytest.approx(kept / 3)


def test_new_items_end_with_the_keys_and_other_tasks_have_no_such_rows():
    model = small_model()
    rows = list(
        trained_interference(
            model, "kv_recall", {"value_tokens": 1}, stored=20, further=(0, 12, 13), examples=2
        )
    )
    assert [(row["kind"], row["further"]) for row in rows] == [
        ("new", 0),
        ("new", 12),
        ("again", 0),
        ("again", 12),
        ("again", 13),
    ]
    assert all(0 <= row["ideal"] <= 1 for row in rows)
    assert not list(trained_interference(model, "forget", {}, examples=2))

"""What was stored, and what a question finds of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from test_observe import model_of

from fourfold.observe import observe
from fourfold.observe.events import Event, events_of
from fourfold.observe.inspection import inspect_reading
from fourfold.observe.items import Item, asked_items, marked_items, read_by, stored_items
from fourfold.tasks import TASKS, Source, make_task


def read(name, index=0, question=0, **settings):
    """Tokens, words and events of an example with a question."""
    task = make_task(name, settings)
    example = Source(task).example("iid", index)
    tokens, events = events_of(task, example, example.questions[question])
    return tokens, [task.word(token) for token in tokens], events


def test_every_marked_span_is_an_item_whatever_it_is_called():
    first, second = Event("first write", "lives", 1), Event("first write", "lives", 2)
    place = Event("place", "é", 3)
    events = [first, first, Event(""), second, place, place, second]
    assert marked_items(events) == [
        Item(first, (0, 1), "lives"),
        Item(second, (3, 6), "lives"),
        Item(place, (4, 5), "é"),
    ]


def test_the_values_of_statements_are_what_is_stored_and_an_empty_word_is_not():
    for index in range(10):
        _, words, events = read("overwrite", index)
        wanted = [
            place
            for place, (word, event) in enumerate(zip(words, events, strict=True))
            if word[0] == "v" and event.kind in ("untouched write", "first write", "update")
        ]
        items = stored_items(words, events)
        assert [item.places for item in items] == [(place,) for place in wanted]
        assert [item.label for item in items] == [f"{events[p].item} {words[p]}" for p in wanted]
    assert stored_items(["", "v", "v1"], [Event("update", "k1")] * 3) == [
        Item(Event("update", "k1"), (2,), "k1 v1")
    ]


def test_a_question_asks_for_the_last_value_and_beside_it_for_those_before():
    updated = 0
    for index in range(20):
        _, words, events = read("overwrite", index, value_tokens=1)
        asked = [place for place, event in enumerate(events) if event.kind == "question"][-1]
        answer = asked + 1
        items = asked_items(words, events)
        writes = [
            place
            for place, event in enumerate(events[:asked])
            if event.item == words[asked] and words[place][0] == "v"
        ]
        (right,) = [item for item in items if item.role == "right"]
        assert right == Item(
            events[writes[-1]], (writes[-1],), f"{words[asked]} → {words[answer]}", asked, "right"
        )
        before = [item.places[0] for item in items if item.role == "same"]
        assert before == [place for place in writes[:-1] if words[place] != words[answer]]
        updated += len(before)
        others = [place for item in items if item.role == "other" for place in item.places]
        assert not {words[place] for place in others} & {words[answer]}
        assert not {events[place].item for place in others} & {words[asked]}
    assert updated > 5


def test_every_token_of_an_answer_asks_for_the_next():
    for name in ("kv_recall", "copy"):
        for index in range(10):
            _, words, events = read(name, index)
            answers = [place for place, event in enumerate(events) if event.kind == "answer"]
            right = [item for item in asked_items(words, events) if item.role == "right"]
            assert [item.question for item in right] == [place - 1 for place in answers]
            assert [words[item.places[0]] for item in right] == [words[p] for p in answers]
            places = [item.places[0] for item in right]
            assert places == list(range(places[0], places[0] + len(places)))


def test_a_value_that_moved_is_found_where_it_was_written():
    moved = 0
    for index in range(30):
        _, words, events = read("rebind", index)
        for item in asked_items(words, events):
            if item.role == "right":
                assert words[item.places[0]] == words[item.question + 1]
                moved += events[item.places[0]].item != events[item.question].item
    assert moved > 3


def test_of_an_item_that_holds_nothing_its_forgotten_value_is_asked_for():
    forgotten = 0
    for index in range(20):
        _, words, events = read("forget", index)
        asked = [place for place, event in enumerate(events) if event.kind == "question"][-1]
        if words[asked + 1] == "nothing":
            roles = [item.role for item in asked_items(words, events)]
            assert "right" not in roles
            forgotten += "same" in roles
    assert forgotten > 3


def test_a_question_by_the_value_asks_for_what_its_item_stored():
    for index in range(5):
        _, words, events = read("reverse_recall", index)
        right = [item for item in asked_items(words, events) if item.role == "right"]
        assert [events[item.places[0]].item for item in right] == [words[-1]]


def test_what_the_context_does_not_tell_is_not_looked_for_in_it():
    told = 0
    for index in range(20):
        _, words, events = read("closed_book", index)
        asked = [place for place, event in enumerate(events) if event.kind == "question"][-1]
        known = words[asked] in words[: asked - 1]
        assert bool(asked_items(words, events)) == known
        told += known
    assert 0 < told < 20


@pytest.mark.parametrize("name", TASKS)
def test_what_a_question_of_any_task_asks_for_was_stored_before_it(name):
    task = make_task(name)
    rows = 0
    for index in range(15):
        example = Source(task).example("iid", index)
        question = example.questions[0] if example.questions else None
        tokens, events = events_of(task, example, question)
        words = [task.word(token) for token in tokens]
        stored = {item.places for item in stored_items(words, events)}
        for item in asked_items(words, events):
            assert {(place,) for place in item.places} <= stored
            assert max(item.places) < item.question
            if item.role == "right":
                rows += 1
                following = [place for place in (item.question + 1,) if place < len(words)]
                answer = [words[p] for p in following if events[p].kind == "answer"]
                if answer and (example.task or name) != "reverse_recall":
                    assert answer == [words[item.places[0]]]
    assert rows


def test_an_entity_is_asked_for_attribute_by_attribute():
    changed = 0
    for index in range(10):
        _, words, events = read("revise", index)
        for number, item in enumerate(
            item for item in asked_items(words, events) if item.role == "right"
        ):
            asked = events[item.question].item
            assert events[item.places[0]].item == f"{asked} a{number}"
            changed += events[item.places[0]].kind == "update"
    assert changed > 0


def test_without_a_question_nothing_is_asked():
    task = make_task("overwrite")
    tokens, events = events_of(task, Source(task).example("iid", 0))
    assert asked_items([task.word(token) for token in tokens], events) == []


@pytest.mark.parametrize("kind", ["atpm", "gated_deltanet"])
def test_asking_with_the_question_is_what_a_walk_through_all_states_finds(kind):
    tokens, words, events = read("overwrite", 3)
    model = model_of(kind, vocab_size=make_task("overwrite").vocab_size).double()
    with observe(model, reads=True, vectors=True) as trace, torch.no_grad():
        model(torch.tensor([tokens]))
    rows = trace.rows[0]
    memory = rows.memory[0]
    states = []
    for t in range(len(tokens)):
        memory = rows.alpha[0, t, :, None, None] * memory
        foreseen = torch.einsum("hsd,hs->hd", memory, rows.s[0, t])
        change = rows.write[0, t] * rows.e[0, t] - rows.erase[0, t] * foreseen
        memory = memory + rows.d[0, t, :, :, None] * change[:, None]
        states.append(memory)
    for item in asked_items(words, events):
        found = read_by(rows, item)
        assert found.shape == (len(tokens), len(item.places), rows.e.shape[2])
        for t, state in enumerate(states):
            said = torch.einsum("hsd,hs->hd", state, rows.q[0, item.question])
            for number, place in enumerate(item.places):
                wanted = rows.e[0, place]
                cosine = (said * wanted).sum(-1) / (said.norm(dim=-1) * wanted.norm(dim=-1))
                if t < place:
                    assert found[t, number].isnan().all()
                else:
                    torch.testing.assert_close(found[t, number], cosine, rtol=1e-10, atol=1e-10)
        there = torch.einsum("hsd,hs->hd", states[item.question], rows.q[0, item.question])
        torch.testing.assert_close(there, trace.reads[0][item.question], rtol=1e-8, atol=1e-8)


def test_a_row_of_a_page_is_the_mean_over_a_span_and_the_best_of_all_others():
    tokens, words, events = read("overwrite", 3)
    model = model_of("atpm", vocab_size=make_task("overwrite").vocab_size)
    stored = [item.places[0] for item in stored_items(words, events)]
    span = Item(Event("span"), tuple(stored[1:4]), "span")
    asked = len(words) - 2
    others = Item(Event(""), tuple(stored[:3]), "others", asked, "other")
    data = inspect_reading(model, tokens, words, events, title="", items=[span, others])
    with observe(model, vectors=True) as trace, torch.no_grad():
        model(torch.tensor([tokens]))
    by_address = trace.readable(0, span.places)
    by_question = read_by(trace.rows[0], others)
    shown = data["readable"][0]
    assert [item["label"] for item in shown["items"]] == ["others", "span"]
    for t in range(len(tokens)):
        one, two = shown["values"][1][t], shown["values"][0][t]
        if t < stored[1]:
            assert one == [None] * 2
        else:
            assert one == pytest.approx(by_address[t].nanmean(0).tolist(), rel=1e-3, abs=1e-6)
        if t < stored[0]:
            assert two == [None] * 2
        else:
            best = by_question[t].nan_to_num(nan=-9).amax(0)
            assert two == pytest.approx(best.tolist(), rel=1e-3, abs=1e-6)


def test_items_that_stand_before_what_is_shown_are_left_out():
    item = Item(Event("a"), (3, 7, 9), "x")
    assert item.behind(5).places == (2, 4)
    assert item.behind(10).places == ()
    asked = replace(item, question=6)
    assert asked.behind(5) == replace(item, places=(2, 4), question=1)
    assert asked.behind(7).places == ()

"""What is said to happen at a token of a task is what its words say."""

from __future__ import annotations

from collections import Counter

import pytest

from fourfold.observe.events import EVENTS, events_of
from fourfold.tasks import TASKS, Source, make_task


def labelled(name, index=0, split="iid", asked=True):
    """(word, kind, item) of every token of an example."""
    task = make_task(name)
    example = Source(task).example(split, index)
    question = example.questions[0] if asked and example.questions else None
    tokens, events = events_of(task, example, question)
    assert len(tokens) == len(events)
    words = [task.word(token) for token in tokens]
    return [(word, event.kind, event.item) for word, event in zip(words, events, strict=True)]


@pytest.mark.parametrize("name", TASKS)
def test_every_token_of_every_task_has_an_event_with_a_meaning(name):
    for index in range(20):
        assert {kind for _, kind, _ in labelled(name, index)} <= set(EVENTS)


def test_a_write_is_an_update_if_its_key_was_written_before():
    kinds = Counter()
    for index in range(30):
        read = labelled("overwrite", index, asked=False)
        keys = [(word, kind) for word, kind, _ in read if word[0] == "k"]
        for place, (key, kind) in enumerate(keys):
            before = key in [other for other, _ in keys[:place]]
            after = key in [other for other, _ in keys[place + 1 :]]
            wanted = "update" if before else "first write" if after else "untouched write"
            assert kind == wanted
            kinds[kind] += 1
        item = ""
        for word, _, of in read:
            item = word if word[0] == "k" else item
            assert of == item
    assert len(kinds) == 3


def test_two_statements_about_one_key_are_two_events():
    task = make_task("overwrite", {"keys": 1, "value_tokens": 1})
    _, events = events_of(task, Source(task).example("ood", 0))
    assert len(set(events)) == len(events) // 2


def test_signs_and_what_they_name_belong_together():
    for index in range(20):
        read = labelled("rebind", index, asked=False)
        words = [word for word, _, _ in read]
        for place, (word, kind, item) in enumerate(read):
            if word in ("move", "swap"):
                assert [kind for _, kind, _ in read[place : place + 4]] == [word] * 4
                assert item == words[place + 1]
            elif word[0] == "v":
                assert kind in ("first write", "untouched write")
        named = {
            key
            for place, word in enumerate(words)
            if word in ("move", "swap")
            for key in words[place + 1 : place + 3]
        }
        for word, kind, _ in read:
            if kind == "untouched write" and word[0] == "k":
                assert word not in named
            if kind == "first write" and word[0] == "k":
                assert word in named
    for word, kind, _ in labelled("forget", 3, asked=False):
        assert word != "forget" or kind == "forget"


def test_noise_and_what_is_to_be_kept_are_told_apart():
    for index in range(20):
        for word, kind, _ in labelled("copy", index, asked=False):
            assert kind == ("value" if word[0] == "v" else "noise")
        read = labelled("selective_copy", index, asked=False)
        for place, (word, kind, item) in enumerate(read):
            marked = word == "*" or (place and read[place - 1][0] == "*")
            assert kind == ("marked" if marked else "noise")
            assert item == ("" if not marked else read[place + (word == "*")][0])
        for word, kind, _ in labelled("documents", index, asked=False):
            assert (kind == "noise") == (word[0] == "n" and word[1:].isdigit())


def test_an_update_of_an_attribute_is_an_update_of_its_entity():
    for word, kind, item in labelled("revise", 2, asked=False):
        assert word[0] != "a" or (kind == "update" and item[0] == "k")


@pytest.mark.parametrize("name", ["overwrite", "copy", "mixed_all"])
def test_a_question_and_its_answer_follow_without_the_last_token(name):
    task = make_task(name)
    example = Source(task).example("iid", 1)
    question = example.questions[0]
    tokens, events = events_of(task, example, question)
    said = [*question.prompt, *question.answer[:-1]]
    assert tokens == [*example.context, *said]
    kinds = [event.kind for event in events[-len(said) :]]
    assert kinds == ["question"] * len(question.prompt) + ["answer"] * (len(question.answer) - 1)
    if name == "mixed_all":
        assert events[0].kind == "task"

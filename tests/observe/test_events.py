"""What is said to happen at a token of a task is what its words say."""

from __future__ import annotations

from collections import Counter

import pytest

from fourfold.observe.events import EVENTS, events_of, places_of
from fourfold.tasks import TASKS, Source, make_task

SHORT = {"iid": (40, 40), "ood": (80, 80), "stress": (99, 99)}
"""Loads of MAD's tasks."""


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


KNOWN_TO_READ = {"revise", "documents", "induction"}
"""Tasks with words that are neither written, asked for nor noise: names of entities, what ends a
document, and the first of all symbols."""


@pytest.mark.parametrize("name", sorted(TASKS))
def test_no_task_is_only_read(name):
    for index in range(6):
        kinds = Counter(kind for _, kind, _ in labelled(name, index))
        assert len(kinds) > 1
        if name not in KNOWN_TO_READ | {"mixed_all"}:
            assert "read" not in kinds


def test_what_is_revised_is_an_attribute_of_an_entity():
    """k5 v1 v7 v3 … k5 a1 v9: of k5 only a1 was changed."""
    kinds = Counter()
    for index in range(20):
        read = labelled("revise", index, asked=False)
        words = [word for word, _, _ in read]
        start = next((p - 1 for p, word in enumerate(words) if word[0] == "a"), len(words))
        changed = {" ".join(words[place : place + 2]) for place in range(start, len(words), 3)}
        for place, (word, kind, item) in enumerate(read):
            if place >= start:
                own = start + (place - start) // 3 * 3
                assert (kind, item) == ("update", " ".join(words[own : own + 2]))
            elif place % 4 == 0:
                assert (kind, item) == ("read", word)
            else:
                assert item == f"{words[place - place % 4]} a{place % 4 - 1}"
                assert kind == ("first write" if item in changed else "untouched write")
            kinds[kind] += 1
    assert min(kinds.values()) > 20


def test_a_fact_of_a_document_is_about_a_title_and_an_attribute():
    for index in range(10):
        title = attribute = ""
        for word, kind, item in labelled("documents", index, asked=False):
            if word[0] == "k":
                title = word
                assert (kind, item) == ("read", title)
            elif word[0] in "av":
                attribute = word if word[0] == "a" else attribute
                assert (kind, item) == ("untouched write", f"{title} {attribute}")
        asked = [event for event in labelled("documents", index) if event[1] == "question"]
        assert asked[0][2].split() == [word for word, _, _ in asked[1:]]


def test_a_link_is_a_write_about_the_node_that_it_leads_from():
    for index in range(10):
        read = labelled("pointer_chase", index)
        written = [item for _, kind, item in read if kind == "untouched write"]
        places = [place for place, (word, _, _) in enumerate(read) if word == "->"]
        assert written == [read[place - 1][0] for place in places for _ in range(3)]
        assert [kind for _, kind, _ in read[len(written) :]][:2] == ["question"] * 2


def test_a_shot_is_about_its_label_and_repeats_what_was_told_of_it():
    kinds = Counter()
    for index in range(20):
        read = labelled("label_map", index)
        label, told = read[-1][0], set()
        context = [event for event in read if event[1] not in ("question", "answer")]
        for place in range(5, len(context), 6):
            shot = context[place - 5 : place + 1]
            item = shot[-1][0]
            assert {of for _, _, of in shot} == {item}
            assert {kind for _, kind, _ in shot} == {
                "repeat" if item in told else "untouched write"
            }
            told.add(item)
            kinds[shot[0][1]] += 1
        assert {item for _, kind, item in read if kind == "question"} == {label}
        assert label in told
    assert len(kinds) == 2


@pytest.mark.parametrize("name", ["mqar", "mad_recall", "mad_noisy_recall", "induction"])
def test_what_is_to_be_named_after_a_token_makes_it_a_question_about_it(name):
    task = make_task(name)
    for index in range(10):
        probes = dict(Source(task).example("iid", index).probes)
        read = labelled(name, index)
        for place, (word, kind, item) in enumerate(read):
            assert (kind == "question") == (place in probes)
            if kind == "question":
                assert item == word
                told = [
                    other
                    for other, (_, written, of) in enumerate(read[:place])
                    if written == "untouched write" and of == item
                ]
                assert read[told[-1]][0] == task.word(probes[place])
            if kind == "answer":
                assert place - 1 in probes
                assert (word, item) == (task.word(probes[place - 1]), read[place - 1][0])
            if word[0] in "n_" or kind == "noise":
                assert (kind, item) == ("noise", "")
        if name == "mad_noisy_recall":
            assert {"noise", "answer", "untouched write"} <= {kind for _, kind, _ in read}


@pytest.mark.parametrize("split", ["train", "iid"])
def test_keys_of_several_tokens_are_one_item(split):
    task = make_task("mad_fuzzy_recall", {"loads": SHORT})
    answers = 0
    for index in range(20):
        example = Source(task).example(split, index)
        probes = dict(example.probes)
        tokens, events = events_of(task, example)
        words = [task.word(token) for token in tokens]
        for place, (word, event) in enumerate(zip(words, events, strict=True)):
            if word == "_":
                assert event.kind == "noise"
                continue
            key = event.item.split()
            start = event.number
            assert words[start : start + len(key)] == key
            assert (word[0] == "k") == (place < start + len(key))
            before = [other.item for other in events[:start]]
            wanted = "answer" if word[0] == "v" else "question"
            assert event.kind == (wanted if event.item in before else "untouched write")
            if event.kind == "answer":
                assert tokens[place] == probes[place - 1]
                answers += 1
    assert answers > 20


def test_each_blank_behind_the_sign_asks_for_its_value():
    task = make_task("mad_selective_copy", {"loads": SHORT})
    for index in range(5):
        example = Source(task).example("iid", index)
        probes = dict(example.probes)
        tokens, events = events_of(task, example)
        sign = [task.word(token) for token in tokens].index("copy")
        for place, (token, event) in enumerate(zip(tokens, events, strict=True)):
            if place < sign:
                blank = task.word(token) == "_"
                assert event.kind == ("noise" if blank else "value")
                assert event.item == ("" if blank else task.word(token))
            else:
                assert event.kind == "question"
                assert event.item == ("" if place == sign else task.word(probes[place]))
        assert len({*events[sign:]}) == len(events) - sign


def test_places_of_kinds_are_those_behind_every_question():
    task = make_task("overwrite")
    example = Source(task).example("iid", 0)
    _, events = events_of(task, example)
    updates = [place for place, event in enumerate(events) if event.kind == "update"]
    assert updates
    assert places_of(task, example, ["update"]) == updates
    end = len(events)
    assert places_of(task, example, ["update", "question"]) == [*updates, end, end + 1]
    longest = max(len(question.answer) for question in example.questions)
    assert places_of(task, example, ["answer"]) == list(range(end + 2, end + 1 + longest))
    with pytest.raises(ValueError, match=r"got 'updat'. Did you mean 'update'\?"):
        places_of(task, example, ["updat"])


def test_kinds_that_stand_at_other_places_behind_other_questions_are_refused():
    task = make_task("reverse_recall")
    examples = (Source(task).example("iid", index) for index in range(20))
    example = next(e for e in examples if len({len(q.prompt) for q in e.questions}) > 1)
    with pytest.raises(ValueError, match="places of answer are not the same behind all of them"):
        places_of(task, example, ["answer"])
    both = places_of(task, example, ["question", "answer"])
    assert both[0] == len(example.context)


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

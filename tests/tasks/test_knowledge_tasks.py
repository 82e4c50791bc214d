"""Tasks on what is known, what is read and what is learnt from examples."""

from __future__ import annotations

from collections import Counter, defaultdict
from statistics import fmean

import pytest
from interpreter import bindings

from fourfold.tasks import SPLITS, Source, make_task


def read(task, example):
    """Words of a context, and of each question with its answer."""
    asked = [
        ([task.word(token) for token in question.prompt], question)
        for question in example.questions
    ]
    return [task.word(token) for token in example.context], asked


def told_by(words):
    """(title, attribute) → value of documents, from their words alone."""
    facts, title, attribute = {}, None, None
    for word in words:
        if word == ";":
            title = attribute = None
        elif title is None:
            assert word[0] == "k"
            title = word
        elif word[0] == "a":
            attribute = word
            facts[title, attribute] = []
        elif word[0] == "n":
            attribute = None
        else:
            facts[title, attribute].append(word)
    return facts


@pytest.mark.parametrize("split", SPLITS)
def test_documents_are_asked_for_facts_that_they_tell(split):
    task = make_task("documents")
    for example in Source(task).examples(split, 0, 30):
        words, asked = read(task, example)
        facts = told_by(words)
        assert len({title for title, _ in facts}) == words.count(";") == example.load
        assert len(facts) == 2 * example.load
        assert sum(word[0] == "n" for word in words) == 6 * example.load
        assert len(asked) == min(8, len(facts))
        for prompt, question in asked:
            said = [task.word(token) for token in question.answer]
            assert said == [*facts[prompt[1], prompt[2]], "."]
            assert prompt[0] == "?"


def test_noise_falls_anywhere_between_the_facts_of_a_document():
    task = make_task("documents", {"filler": 1})
    after_title = Counter()
    for example in Source(task).examples("iid", 0, 200):
        words, _ = read(task, example)
        starts = [0] + [place + 1 for place, word in enumerate(words[:-1]) if word == ";"]
        after_title.update(words[start + 1][0] for start in starts)
    # The one symbol of noise stands before, between or behind two facts, each as likely.
    assert after_title["n"] / after_title.total() == pytest.approx(1 / 3, abs=0.04)


def shots_of(words):
    """Features and label of each shot."""
    return [(tuple(words[at : at + 4]), words[at + 5]) for at in range(0, len(words), 6)]


@pytest.mark.parametrize("anonymous", [0.0, 1.0])
@pytest.mark.parametrize("split", SPLITS)
def test_without_blur_the_label_is_that_of_the_same_features(anonymous, split):
    task = make_task("label_map", {"blur": 0.0, "anonymous": anonymous})
    for example in Source(task).examples(split, 0, 20):
        words, asked = read(task, example)
        shots = shots_of(words)
        assert set(Counter(shots).values()) == {example.load}
        assert len(set(shots)) == 4
        labels = dict(shots)
        assert len(set(labels.values())) == 4
        for prompt, question in asked:
            assert (prompt[0], prompt[-1]) == ("?", "=")
            said = [task.word(token) for token in question.answer]
            assert said == [labels[tuple(prompt[1:-1])], "."]


def labels_by_features(anonymous):
    task = make_task("label_map", {"blur": 0.0, "anonymous": anonymous})
    found = defaultdict(set)
    for example in Source(task).examples("iid", 0, 100):
        for features, label in shots_of(read(task, example)[0]):
            found[features].add(label)
    return found


def test_classes_of_the_world_keep_their_labels_and_anonymous_ones_are_new():
    world = labels_by_features(0.0)
    assert len(world) == 16
    assert all(len(labels) == 1 for labels in world.values())
    assert len({label for labels in world.values() for label in labels}) == 16
    anonymous = labels_by_features(1.0)
    assert len(anonymous) > 390  # of 400: a class hardly ever comes twice
    mixed = labels_by_features(0.5)
    assert len(set(mixed) & set(world)) == 16
    assert 150 < len(set(mixed) - set(world)) < 250


def nearest(shots, features):
    """The label with the most symbols in common with its shots, place by place."""
    votes = Counter()
    for shot, label in shots:
        votes[label] += sum(a == b for a, b in zip(shot, features, strict=True))
    return votes.most_common(1)[0][0]


def test_shots_tell_what_an_anonymous_class_is_called_and_more_shots_tell_more():
    accuracy = {}
    for shots in (1, 16):
        loads = {"iid": (shots, shots), "ood": (32, 32), "stress": (32, 32)}
        task = make_task("label_map", {"anonymous": 1.0, "loads": loads, "blur": 0.5})
        right = []
        for example in Source(task).examples("iid", 0, 100):
            words, asked = read(task, example)
            for prompt, question in asked:
                label = task.word(question.answer[0])
                right.append(nearest(shots_of(words), tuple(prompt[1:-1])) == label)
        accuracy[shots] = fmean(right)
    assert accuracy[1] < 0.8
    assert accuracy[16] > accuracy[1] + 0.1


@pytest.mark.parametrize("split", SPLITS)
def test_what_is_told_follows_from_the_context_and_what_is_known_never_changes(split):
    task = make_task("closed_book")
    known, kinds = defaultdict(set), Counter()
    for example in Source(task).examples(split, 0, 60):
        words, asked = read(task, example)
        told = dict(bindings(words))
        assert len(told) == example.load
        for prompt, question in asked:
            (part,) = question.parts
            value = tuple(task.word(token) for token in part.tokens)
            kinds[part.kind] += 1
            if part.kind == "told":
                assert list(value) == told[prompt[1]]
            else:
                assert prompt[1] not in told
                known[prompt[1]].add(value)
    assert set(kinds) == {"told", "known"}
    assert len(known) == 32
    assert all(len(values) == 1 for values in known.values())
    again = make_task("closed_book", {"questions": 32})
    for _, question in read(again, Source(again, 5).example("train", 0))[1]:
        (part,) = question.parts
        if part.kind == "known":
            value = tuple(again.word(token) for token in part.tokens)
            assert known[again.word(question.prompt[1])] == {value}


@pytest.mark.parametrize(
    ("name", "fields", "sentence"),
    [
        ("documents", {"facts": 5}, "needs 5 different symbols of the family 'attribute'"),
        ("documents", {"vocabulary": {"noise": 0}}, "needs 1 different symbols .* 'noise'"),
        ("label_map", {"classes": 12, "world": 8}, "a world of 8 and 12 classes"),
        ("label_map", {"world": 17}, "needs 17 different symbols of the family 'value'"),
        ("label_map", {"features": 1, "vocabulary": {"keys": 8}}, "at most the 8 that 1 features"),
        ("closed_book", {"world": 40}, "needs 72 different symbols of the family 'key'"),
    ],
)
def test_what_cannot_be_drawn_is_refused(name, fields, sentence):
    with pytest.raises(ValueError, match=sentence):
        make_task(name, fields)

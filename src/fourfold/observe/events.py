"""What happens at each token of a memory task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from fourfold.tasks.example import Example, Question
from fourfold.tasks.task import Task


@dataclass(frozen=True)
class Event:
    """What a token is part of.

    Attributes:
        kind: such as "first write", "update" or "noise"; see ``EVENTS``.
        item: the word of what it is about, "" for nothing.
        number: tells statements apart that say the same of the same.
    """

    kind: str
    item: str = ""
    number: int = 0


EVENTS = {
    "task": "the symbol of a task in a mixture",
    "untouched write": "the only write of an item",
    "first write": "the first write of an item that is changed later",
    "update": "a later write of an item",
    "move": "a value moves to a key that held none",
    "swap": "two keys swap their values",
    "forget": "an item is to hold nothing",
    "noise": "nothing to be kept",
    "marked": "a token to be kept, with its mark",
    "value": "a token to be kept",
    "read": "anything else that is read",
    "question": "what is asked",
    "answer": "what is answered",
}
"""Kinds of events and their meanings."""


def events_of(
    task: Task, example: Example, question: Question | None = None
) -> tuple[list[int], list[Event]]:
    """The tokens of an example, and what happens at each.

    Args:
        task: that it was drawn from.
        question: that follows, with its answer, all but the last token of which is read; None for
            the context alone.
    """
    words = [task.word(token) for token in example.context]
    events = [Event("task")] if example.task else []
    name = example.task or task.name
    events += _LABELLERS.get(name, _plain)(words[len(events) :])
    tokens = list(example.context)
    if question is not None:
        item = _asked(question, task)
        tokens += [*question.prompt, *question.answer[:-1]]
        events += [Event("question", item)] * len(question.prompt)
        events += [Event("answer", item)] * (len(question.answer) - 1)
    return tokens, events


def _asked(question: Question, task: Task) -> str:
    words = [task.word(token) for token in question.prompt]
    return next((word for word in words if _is(word, "k")), "")


def _plain(words: Sequence[str]) -> list[Event]:
    return [Event("noise" if _is(word, "n") else "read") for word in words]


def _copied(words: Sequence[str]) -> list[Event]:
    return [Event("value", word) if _is(word, "v") else Event("noise") for word in words]


def _marked(words: Sequence[str]) -> list[Event]:
    events = []
    for place, word in enumerate(words):
        marks = word == "*"
        follows = place > 0 and words[place - 1] == "*"
        kept = word if follows else words[place + 1] if marks and place + 1 < len(words) else ""
        events.append(Event("marked", kept) if kept else Event("noise"))
    return events


def _bound(words: Sequence[str]) -> list[Event]:
    """Keys, each with what is bound to it behind it, and signs that do something to keys."""
    events: list[Event] = []
    seen: set[str] = set()
    now = Event("read")
    while len(events) < len(words):
        word = words[len(events)]
        if word in _SIGNS:
            now = Event(word, words[len(events) + 1], len(events))
            events += [now] * _SIGNS[word]
            continue
        if _is(word, "k"):
            now = Event("update" if word in seen else "first write", word, len(events))
            seen.add(word)
        events.append(Event("noise") if _is(word, "n") else now)
    return _with_untouched(words, events)


def _with_untouched(words: Sequence[str], events: list[Event]) -> list[Event]:
    """First writes of items that nothing changes later are called so."""
    changes: Counter[str] = Counter()
    for word, event in zip(words, events, strict=True):
        if event.kind in ("update", "move", "swap", "forget") and _is(word, "k"):
            changes[word] += 1
    return [
        replace(event, kind="untouched write")
        if event.kind == "first write" and not changes[event.item]
        else event
        for event in events
    ]


_SIGNS = {"move": 4, "swap": 4, "forget": 2}
"""Signs that do something to keys, with the words of what they say."""


def _is(word: str, letter: str) -> bool:
    """Whether a word is a symbol of the family with this letter, such as k12, and no sign."""
    return word[0] == letter and word[1:].isdigit()


_LABELLERS: dict[str, Callable[[Sequence[str]], list[Event]]] = {
    "copy": _copied,
    "selective_copy": _marked,
    **dict.fromkeys(
        (
            "kv_recall",
            "reverse_recall",
            "revise",
            "overwrite",
            "rebind",
            "forget",
            "closed_book",
            "documents",
        ),
        _bound,
    ),
}

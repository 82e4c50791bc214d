"""What happens at each token of a memory task."""

from __future__ import annotations

from collections.abc import Collection

from fourfold.observe.labelling import LABELLERS, Event, is_symbol, read
from fourfold.settings import near
from fourfold.tasks.example import Example, Question
from fourfold.tasks.task import Task

__all__ = ["EVENTS", "Event", "events_of", "places_of"]

EVENTS = {
    "task": "the symbol of a task in a mixture",
    "untouched write": "the first write of an item that nothing changes later",
    "first write": "the first write of an item that is changed later",
    "update": "a later write of an item",
    "repeat": "what an item holds, told again",
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

BY_ANSWER = {"label_map", "reverse_recall"}
"""Tasks whose questions do not name the item that they are about; their answers do."""


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
    asked = [place - len(events) for place, _ in example.probes]
    events += LABELLERS.get(name, read)(words[len(events) :], asked)
    tokens = list(example.context)
    if question is not None:
        about = question.answer[:1] if name in BY_ANSWER else question.prompt
        named = (task.word(token) for token in about)
        item = " ".join(word for word in named if any(is_symbol(word, x) for x in "kav"))
        tokens += [*question.prompt, *question.answer[:-1]]
        events += [Event("question", item)] * len(question.prompt)
        events += [Event("answer", item)] * (len(question.answer) - 1)
    return tokens, events


def places_of(task: Task, example: Example, kinds: Collection[str]) -> list[int]:
    """The places of an example, with whichever of its questions, at which such events happen; for
    ``intervene(at=…)``.

    Raises:
        ValueError: a kind is not known, or questions are of several lengths, so that one place is
            such an event behind one and none behind another; a sentence.
    """
    for kind in kinds:
        if kind not in EVENTS:
            raise ValueError(
                f"kinds must be of {', '.join(EVENTS)}; got {kind!r}.{near(kind, EVENTS)}"
            )
    found: dict[int, bool] = {}
    for question in example.questions or (None,):
        for place, event in enumerate(events_of(task, example, question)[1]):
            if found.setdefault(place, event.kind in kinds) != (event.kind in kinds):
                raise ValueError(
                    "The questions of an example are of several lengths, so places of "
                    f"{' and '.join(kinds)} are not the same behind all of them; name both "
                    "question and answer, or neither."
                )
    return [place for place, wanted in found.items() if wanted]

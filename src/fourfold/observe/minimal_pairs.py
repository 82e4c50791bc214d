"""The same statement about an item that the memory knows, and about one that it does not."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from fourfold.observe.events import events_of
from fourfold.observe.labelling import is_symbol
from fourfold.tasks.example import Example
from fourfold.tasks.task import Task

CHANGES = ("update", "move", "swap", "forget")
"""Kinds of events that are about an item of which something was read before."""


@dataclass(frozen=True)
class MinimalPair:
    """Three beginnings of one context, alike but for the key of their last statement.

    What differs between ``known`` and ``unknown`` beyond what differs between ``unknown`` and
    ``other`` is due to the memory: not to the kind of statement, to its place or to its words.

    Attributes:
        kind: of the event, of ``CHANGES``.
        known: the last statement is about a key that was read before.
        unknown, other: it is about one that was not, another one in each.
        start: place of the statement; it goes to the end.
        key: place of the key in which they differ.
        words: of the statement about the known key.
    """

    kind: str
    known: tuple[int, ...]
    unknown: tuple[int, ...]
    other: tuple[int, ...]
    start: int
    key: int
    words: tuple[str, ...]


def minimal_pair(task: Task, example: Example, random: Random) -> MinimalPair | None:
    """One of the changes in an example, drawn at random, beside what it is not.

    Returns:
        None where nothing is changed, or fewer than two keys are left that nothing has named.
    """
    tokens, events = events_of(task, example)
    words = [task.word(token) for token in tokens]
    statements = []
    for place, event in enumerate(events):
        if event.kind in CHANGES and (place == 0 or events[place - 1] != event):
            following = range(place, len(events))
            stop = next((end for end in following if events[end] != event), len(events))
            statements.append((place, stop))
    if not statements:
        return None
    start, stop = random.choice(statements)
    key = next(place for place in range(start, stop) if is_symbol(words[place], "k"))
    named = set(tokens[:stop])
    free = [
        token
        for token in range(task.vocab_size)
        if token not in named and is_symbol(task.word(token), "k")
    ]
    if len(free) < 2:
        return None
    first, second = random.sample(free, 2)

    def about(token: int) -> tuple[int, ...]:
        return (*tokens[:key], token, *tokens[key + 1 : stop])

    return MinimalPair(
        kind=events[start].kind,
        known=about(tokens[key]),
        unknown=about(first),
        other=about(second),
        start=start,
        key=key,
        words=tuple(words[start:stop]),
    )

"""What happens at each token that a memory task lets read, told from its words."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import groupby


@dataclass(frozen=True)
class Event:
    """What a token is part of.

    Attributes:
        kind: such as "first write", "update" or "noise"; see ``EVENTS``.
        item: the words of what it is about, "" for nothing.
        number: tells statements apart that say the same of the same.
    """

    kind: str
    item: str = ""
    number: int = 0


Labeller = Callable[[Sequence[str], Collection[int]], list[Event]]
"""From the words of a context, and the places after which something is to be named, to the event
of each word."""


def read(words: Sequence[str], asked: Collection[int]) -> list[Event]:
    """Of a task that is not known here."""
    return [Event("noise" if is_symbol(word, "n") else "read") for word in words]


def _copied(words: Sequence[str], asked: Collection[int]) -> list[Event]:
    return [Event("value", word) if is_symbol(word, "v") else Event("noise") for word in words]


def _copied_in_places(words: Sequence[str], asked: Collection[int]) -> list[Event]:
    """Values among blanks, a sign, and a blank for each value, at which it is to be named."""
    values: list[str] = []
    events: list[Event] = []
    for place, word in enumerate(words):
        if place in asked:
            events.append(Event("question", values[sorted(asked).index(place)], place))
        elif word == "_":
            events.append(Event("noise"))
        elif is_symbol(word, "v"):
            values.append(word)
            events.append(Event("value", word, place))
        else:
            events.append(Event("question"))
    return events


def _marked(words: Sequence[str], asked: Collection[int]) -> list[Event]:
    events = []
    for place, word in enumerate(words):
        marks = word == "*"
        follows = place > 0 and words[place - 1] == "*"
        kept = word if follows else words[place + 1] if marks and place + 1 < len(words) else ""
        events.append(Event("marked", kept) if kept else Event("noise"))
    return events


def _bound(words: Sequence[str], asked: Collection[int]) -> list[Event]:
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
        if is_symbol(word, "k"):
            now = Event("update" if word in seen else "first write", word, len(events))
            seen.add(word)
        events.append(Event("noise") if is_symbol(word, "n") else now)
    changes = ("update", "move", "swap", "forget")
    changed = {word for word, event in zip(words, events, strict=True) if event.kind in changes}
    return _with_untouched(events, changed)


def _of_attributes(words: Sequence[str], asked: Collection[int]) -> list[Event]:
    """Entities with all of their attributes, then new values of single ones."""
    events: list[Event] = []
    entity = item = ""
    attribute = 0
    now = Event("read")
    for place, word in enumerate(words):
        if is_symbol(word, "k"):
            entity, attribute = word, 0
            named = words[place + 1 : place + 2]
            changes = bool(named) and is_symbol(named[0], "a")
            item = " ".join([entity, *named]) if changes else entity
            now = Event("update" if changes else "read", item, place)
        elif is_symbol(word, "v") and now.kind != "update":
            now = Event("first write", f"{entity} a{attribute}", place)
            attribute += 1
        events.append(now)
    changed = {event.item for event in events if event.kind == "update"}
    return _with_untouched(events, changed)


def _told(words: Sequence[str], asked: Collection[int]) -> list[Event]:
    """Titles, each with attributes and their values behind it, among noise."""
    events: list[Event] = []
    title = ""
    now = Event("read")
    for place, word in enumerate(words):
        if is_symbol(word, "k"):
            title, now = word, Event("read", word, place)
        elif is_symbol(word, "a"):
            now = Event("untouched write", f"{title} {word}", place)
        elif not is_symbol(word, "v"):
            now = Event("noise" if is_symbol(word, "n") else "read")
        events.append(now)
    return events


def _linked(words: Sequence[str], asked: Collection[int]) -> list[Event]:
    """Links of three words, from a node to another."""
    starts = (place - place % 3 for place in range(len(words)))
    return [Event("untouched write", words[start], start) for start in starts]


def _shown(words: Sequence[str], asked: Collection[int]) -> list[Event]:
    """Shots, each of which ends with its label, the item that it tells of."""
    events: list[Event] = []
    seen: set[str] = set()
    for place, word in enumerate(words):
        if is_symbol(word, "v"):
            shot = Event("repeat" if word in seen else "untouched write", word, len(events))
            events += [shot] * (place + 1 - len(events))
            seen.add(word)
    return events


def _paired(words: Sequence[str], asked: Collection[int]) -> list[Event]:
    """As many pairs of a key and a value as are asked for, then keys among what fills."""
    events: list[Event] = []
    for place, word in enumerate(words):
        if place < 2 * len(asked):
            start = place - place % 2
            events.append(Event("untouched write", words[start], start))
        else:
            events.append(Event("question", word, place) if place in asked else Event("noise"))
    return events


def _recalled(words: Sequence[str], asked: Collection[int]) -> list[Event]:
    """Keys and values of one or more words each; a key that comes again is asked for."""
    events: list[Event] = []
    seen: set[str] = set()
    item, asks = "", False
    number = 0
    for letter, run in groupby(words, lambda word: word[0]):
        length = len(names := list(run))
        if letter == "k":
            item, number = " ".join(names), len(events)
            asks = item in seen
            seen.add(item)
        if letter in "kv":
            again = "question" if letter == "k" else "answer"
            events += [Event(again if asks else "untouched write", item, number)] * length
        else:
            events += [Event("noise")] * length
    return events


def _followed(words: Sequence[str], asked: Collection[int]) -> list[Event]:
    """Different symbols, each of which tells what follows the one before; then some again."""
    events = [Event("read"), *(Event("untouched write", word, at) for at, word in enumerate(words))]
    return [
        Event("question", word, place) if place in asked else events[place]
        for place, word in enumerate(words)
    ]


def _with_untouched(events: Sequence[Event], changed: Collection[str]) -> list[Event]:
    """First writes of items that nothing changes later are called so."""
    return [
        replace(event, kind="untouched write")
        if event.kind == "first write" and event.item not in changed
        else event
        for event in events
    ]


def is_symbol(word: str, letter: str) -> bool:
    """Whether a word is a symbol of the family with this letter, such as k12, and no sign."""
    return word[0] == letter and word[1:].isdigit()


_SIGNS = {"move": 4, "swap": 4, "forget": 2}
"""Signs that do something to keys, with the words of what they say."""

LABELLERS: dict[str, Labeller] = {
    "copy": _copied,
    "selective_copy": _marked,
    "revise": _of_attributes,
    "documents": _told,
    "pointer_chase": _linked,
    "label_map": _shown,
    "mqar": _paired,
    "mad_recall": _recalled,
    "mad_noisy_recall": _recalled,
    "mad_fuzzy_recall": _recalled,
    "mad_selective_copy": _copied_in_places,
    "induction": _followed,
    **dict.fromkeys(
        ("kv_recall", "reverse_recall", "overwrite", "rebind", "forget", "closed_book"), _bound
    ),
}
"""Of each task, by its name."""

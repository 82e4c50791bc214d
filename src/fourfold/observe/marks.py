"""Labels that a user gives to pieces of a text."""

from __future__ import annotations

from collections.abc import Sequence

from fourfold.data.words import Words
from fourfold.observe.events import Event

CONTEXT = 16
"""Tokens before one in which it is read."""


def marked(
    words: Words, tokens: Sequence[int], marks: Sequence[str]
) -> tuple[list[str], list[Event]]:
    """What is shown for each token, and the event that it is part of.

    Args:
        marks: "NAME=TEXT": wherever TEXT occurs, its tokens are of the event NAME. Where marks
            overlap, the last counts.

    Raises:
        ValueError: a mark has another form, or occurs nowhere.
    """
    ends = _ends(words, tokens) if marks else []
    starts = [0, *ends[:-1]]
    whole = words.text(tokens)
    events = [Event("")] * len(tokens)
    for mark in marks:
        name, sign, text = mark.partition("=")
        if not (name and sign and text):
            raise ValueError(f"A mark must be NAME=TEXT, like place=Paris; got {mark}.")
        place = whole.find(text)
        if place < 0:
            raise ValueError(f"The mark {mark} occurs nowhere in the text.")
        while place >= 0:
            for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
                if start < place + len(text) and end > place:
                    events[number] = Event(name, text)
            place = whole.find(text, place + len(text))
    return [words.text([token]) for token in tokens], events


def _ends(words: Words, tokens: Sequence[int]) -> list[int]:
    """Where each token ends in the text of all of them.

    A token may be a part of a letter, or change how the one before it reads: what a token adds to
    the text of a few before it tells where it stands.
    """
    ends: list[int] = []
    for place in range(len(tokens)):
        start = max(0, place - CONTEXT)
        with_it, without_it = tokens[start : place + 1], tokens[start:place]
        added = len(words.text(with_it)) - len(words.text(without_it))
        ends.append((ends[-1] if ends else 0) + added)
    return ends

"""Labels that a user gives to pieces of a text."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

from fourfold.data.words import Words
from fourfold.observe.events import Event

CONTEXT = 16
"""Tokens before one in which it is read, at least."""

FORM = "NAME=TEXT, like place=Paris, or NAME=TEXT@n for its n-th occurrence"


def marked(
    words: Words, tokens: Sequence[int], marks: Sequence[str]
) -> tuple[list[str], list[Event]]:
    """What is shown for each token, and the event that it is part of.

    The words put together are the text. Where a letter consists of several tokens, the first of
    them is shown as the letter and the others as "".

    Args:
        marks: "NAME=TEXT": wherever TEXT occurs, its tokens are of the event NAME.
            "NAME=TEXT@n": the n-th occurrence alone, from 1. Where marks overlap, the last counts.

    Raises:
        ValueError: a mark has another form, or occurs nowhere or not so often.
    """
    whole = words.text(tokens)
    ends = _ends(words, tokens, len(whole))
    starts = [0, *ends][: len(ends)]
    events = [Event("")] * len(tokens)
    number = 0
    for mark in marks:
        name, text, chosen = _parsed(mark)
        found = [match.start() for match in re.finditer(re.escape(text), whole)]
        if not found:
            raise ValueError(f"The mark {mark} occurs nowhere in the text.")
        if chosen is not None:
            if not 1 <= chosen <= len(found):
                raise ValueError(
                    f"n of a mark must be from 1 to {len(found)}, as often as {text} occurs; "
                    f"got {mark}."
                )
            found = [found[chosen - 1]]
        for place in found:
            number += 1
            first = bisect_right(ends, place)
            # A token that adds no letter is part of the one before it.
            stop = bisect_right(ends, place + len(text) - 1) + 1
            while stop < len(ends) and ends[stop] == ends[stop - 1]:
                stop += 1
            events[first:stop] = [Event(name, text, number)] * (stop - first)
    return [whole[start:end] for start, end in zip(starts, ends, strict=True)], events


def _parsed(mark: str) -> tuple[str, str, int | None]:
    """Name, text and number of a mark."""
    name, sign, text = mark.partition("=")
    if not (name and sign and text):
        raise ValueError(f"A mark must be {FORM}; got {mark}.")
    numbered = re.fullmatch(r"(.+)@(\d+)", text, re.DOTALL)
    return (name, numbered[1], int(numbered[2])) if numbered else (name, text, None)


def _ends(words: Words, tokens: Sequence[int], length: int) -> list[int]:
    """Where each token ends in the text of all of them, of ``length`` letters.

    A token may be a part of a letter, or change how the one before it reads: what a token adds to
    the text of a few before it tells where it stands.
    """
    ends: list[int] = []
    known = 0
    for place in range(len(tokens)):
        if place % CONTEXT == 0:
            start = max(0, place - CONTEXT)
            before = len(words.text(tokens[start:place]))
        now = len(words.text(tokens[start : place + 1]))
        known, before = known + now - before, now
        ends.append(max(ends[-1] if ends else 0, min(length, known)))
    return [*ends[:-1], length] if ends else []

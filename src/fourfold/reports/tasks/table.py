"""Tables of text, before it is known whether they become HTML or Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

NOTHING = "–"


@dataclass(frozen=True)
class Entry:
    """What stands in one place of a table.

    Attributes:
        text: the figure.
        notes: what is said beside it, smaller.
        best: whether it is the best of its row.
        flag: whether the reader should stumble over it.
    """

    text: str
    notes: tuple[str, ...] = ()
    best: bool = False
    flag: bool = False


@dataclass(frozen=True)
class Table:
    """A table with a header; all rows are as long as it.

    Attributes:
        header: titles of the columns.
        rows: entries; the first names the row.
        words: how many columns, from the first, hold words and not figures.
        foot: how many rows, from the last, sum up the others.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[Entry, ...], ...]
    words: int = 1
    foot: int = 0


def plain(*texts: str) -> tuple[Entry, ...]:
    """A row, or part of one, of entries without notes."""
    return tuple(Entry(text) for text in texts)


def percent(share: float) -> str:
    """A share from 0 to 1 in percent, without the sign."""
    return f"{100 * share:.1f}"


def count(number: int, noun: str) -> str:
    """ "1 seed", "2 seeds"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def listed(values: Sequence[object]) -> str:
    """ "a, b and c"."""
    texts = [str(value) for value in values]
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)

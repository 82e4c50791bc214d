"""Tables as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]], *, words: int = 1) -> str:
    """A table whose first ``words`` columns hold words, and all others numbers."""
    rule = ["---"] * words + ["---:"] * (len(header) - words)
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, rule, *rows))


def spread(values: Sequence[float], digits: int = 1) -> str:
    """The mean of several seeds, and their least and greatest: "71.3 (60.1–79.3)"."""
    if not values:
        return ""
    mean = f"{fmean(values):.{digits}f}"
    if len(values) == 1:
        return mean
    return f"{mean} ({min(values):.{digits}f}–{max(values):.{digits}f})"

"""Few numbers out of many: how long ATPM takes for what transformers does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fourfold.benchmarks.recurrences import ATPM_FUSED, TRANSFORMERS

SHORT = 2048
"""Tokens up to which shapes enter the geometric mean."""


def row(entry: dict[str, Any], name: str) -> dict[str, Any]:
    """The row of a contestant in the entry of a shape.

    Raises:
        KeyError: there is none.
    """
    for candidate in entry["rows"]:
        if candidate["contestant"] == name:
            return candidate
    raise KeyError(name)


def ratio(entry: dict[str, Any], mode: str, name: str, other: str = TRANSFORMERS) -> float | None:
    """Median time of one contestant over that of another; None if either has none."""
    ours, theirs = (row(entry, which)[mode] for which in (name, other))
    if ours is None or theirs is None:
        return None
    return ours["median_ms"] / theirs["median_ms"]


def geometric_mean(ratios: Sequence[float | None]) -> float | None:
    """Of those that are there; None if none is."""
    logarithms = [math.log(x) for x in ratios if x is not None]
    return math.exp(sum(logarithms) / len(logarithms)) if logarithms else None


def summarise(entries: Sequence[dict[str, Any]], modes: Sequence[str]) -> dict[str, Any]:
    """Ratios of times, ATPM fused : transformers, for each shape and over the short ones."""
    ratios = [
        {"shape": entry["shape"]} | {mode: ratio(entry, mode, ATPM_FUSED) for mode in modes}
        for entry in entries
    ]
    short = [found for found in ratios if found["shape"]["tokens"] <= SHORT]
    return {
        "ratio": f"time of {ATPM_FUSED} : time of {TRANSFORMERS}, medians; below 1 is faster",
        "shapes": ratios,
        f"geometric_mean_up_to_{SHORT}_tokens": {
            mode: geometric_mean([found[mode] for found in short]) for mode in modes
        },
    }


def microseconds_per_token(entry: dict[str, Any], name: str, mode: str) -> float | None:
    """Median time over B · T; None if it was not timed."""
    timing = row(entry, name)[mode]
    if timing is None:
        return None
    return 1e3 * timing["median_ms"] / (entry["shape"]["rows"] * entry["shape"]["tokens"])


def length_ratio(entries: Sequence[dict[str, Any]], name: str, mode: str) -> float | None:
    """Time per token at the most tokens over that at the fewest; 1 is linear in T."""
    if len(entries) < 2:
        return None
    few, many = (microseconds_per_token(entry, name, mode) for entry in (entries[0], entries[-1]))
    return None if few is None or many is None else many / few

"""What the figures show: means over the seeds at the chosen rate, with the range between seeds."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from fourfold.grid.cell import TESTS
from fourfold.reports.tasks.results import GridResults, Group, Result, diverged
from fourfold.reports.tasks.scores import value
from fourfold.tasks import Loads, Split

Progress = Literal["validation_loss", "validation_accuracy"]

MOST_POINTS = 14
"""Loads that are drawn one by one; where there are more, they are drawn by powers of two."""


@dataclass(frozen=True)
class Point:
    """A point of a line.

    Attributes:
        x: load, place of a split, or step.
        mean: over the seeds.
        low, high: least and greatest of the seeds.
    """

    x: float
    mean: float
    low: float
    high: float


def trained_loads(results: GridResults, task: str) -> tuple[int, int] | None:
    """Least and greatest load of the test that is like training; None if there are no loads."""
    planned = getattr(results.grid.built_tasks[task], "loads", None)
    if isinstance(planned, Loads):
        return planned.iid
    loads = _questions(results, task, ("iid",))  # of a task whose settings are no plain range
    return (min(loads), max(loads)) if loads else None


def load_lines(results: GridResults, task: str) -> dict[str, list[Point]]:
    """Exact match against the load, all test splits in one, for each model that has it."""
    weights = _questions(results, task, TESTS)
    bins = _bins(weights, trained_loads(results, task))
    lines = {}
    for group in results.groups(task) if bins else ():
        found = [_by_load(result) for result in group.runs.values()]
        if found:
            lines[group.model] = [
                _point(
                    _weighted({load: float(load) for load in loads}, loads, weights),
                    [_weighted(matches, loads, weights) for matches in found],
                )
                for loads in bins
            ]
    return lines


def split_lines(results: GridResults, task: str) -> dict[str, list[Point]]:
    """Exact match of each test split, for each model that has it; x is the split's place."""
    lines = {}
    for group in results.groups(task):
        if group.runs:
            lines[group.model] = [
                _point(place, _matches(group, split)) for place, split in enumerate(TESTS)
            ]
    return lines


def learning_lines(results: GridResults, task: str, key: Progress) -> dict[str, list[Point]]:
    """Validation against the step; a run that diverged is in it as far as it came."""
    lines = {}
    for group in results.groups(task):
        by_step: dict[int, list[float]] = defaultdict(list)
        for result in group.runs.values():
            for point in result["curve"]:
                by_step[point["step"]].append(point[key])
        if by_step:
            lines[group.model] = [_point(step, by_step[step]) for step in sorted(by_step)]
    return lines


def part_shares(results: GridResults, task: str, split: Split) -> dict[str, dict[str, float]]:
    """Shares of parts by kind, for each model that has them; a run that diverged counts 0."""
    shares = {}
    for group in results.groups(task):
        found = [
            {} if diverged(result) else result["tests"][split].get("parts", {})
            for result in group.runs.values()
        ]
        kinds = sorted({kind for parts in found for kind in parts})
        if kinds:
            shares[group.model] = {
                kind: fmean(parts[kind]["share"] if kind in parts else 0.0 for parts in found)
                for kind in kinds
            }
    return shares


def part_counts(results: GridResults, task: str, split: Split) -> dict[str, int]:
    """How many parts of each kind a split asks about; all models and seeds have the same."""
    measured = [result for result in results.of(task) if not diverged(result)]
    parts = measured[0]["tests"][split].get("parts", {}) if measured else {}
    return {kind: entry["of"] for kind, entry in parts.items()}


def _point(x: float, values: Sequence[float]) -> Point:
    return Point(x, fmean(values), min(values), max(values))


def _matches(group: Group, split: Split) -> list[float]:
    found = (value(result, split, "exact_match") for result in group.runs.values())
    return [match for match in found if match is not None]


def _questions(results: GridResults, task: str, splits: Sequence[Split]) -> dict[int, int]:
    """Questions by load; the tests of all models and seeds are the same."""
    questions: dict[int, int] = defaultdict(int)
    measured = [result for result in results.of(task) if not diverged(result)]
    for result in measured[:1]:
        for split in splits:
            for load, entry in result["tests"][split].get("by_load", {}).items():
                questions[int(load)] += entry["questions"]
    return dict(questions)


def _by_load(result: Result) -> dict[int, float]:
    """Exact match by load; nothing of a run that diverged, which stands for 0."""
    if diverged(result):
        return {}
    right: dict[int, float] = defaultdict(float)
    asked: dict[int, int] = defaultdict(int)
    for split in TESTS:
        for load, entry in result["tests"][split]["by_load"].items():
            right[int(load)] += entry["exact_match"] * entry["questions"]
            asked[int(load)] += entry["questions"]
    return {load: right[load] / asked[load] for load in asked}


def _bins(questions: Mapping[int, int], trained: tuple[int, int] | None) -> list[list[int]]:
    """The loads that make a point together; trained loads and others never do."""
    loads = sorted(questions)
    if len(loads) <= MOST_POINTS or trained is None:
        return [[load] for load in loads]
    low, high = trained
    together: dict[tuple[bool, int], list[int]] = defaultdict(list)
    for load in loads:
        together[not low <= load <= high, math.ceil(math.log2(load))].append(load)
    return sorted(together.values())


def _weighted(
    values: Mapping[int, float], loads: Sequence[int], questions: Mapping[int, int]
) -> float:
    """Mean over ``loads``, each as often as it is asked about."""
    total = sum(values.get(load, 0.0) * questions[load] for load in loads)
    return total / sum(questions[load] for load in loads)

"""Scores over the seeds of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from fourfold.reports.tasks.results import GridResults, Group, Result, diverged
from fourfold.tasks import Split

Measure = Literal["exact_match", "token_accuracy", "cross_entropy"]

PLATEAU = 0.5
"""A seed has left the plateau if its exact match IID is above this."""


@dataclass(frozen=True)
class Score:
    """A measure of a model on a task, or its mean over all tasks.

    Attributes:
        mean: over the seeds.
        spread: least and greatest of the seeds, if there are several.
        interval: of 95 %, if there is one seed and the measure has an interval.
    """

    mean: float
    spread: tuple[float, float] | None = None
    interval: tuple[float, float] | None = None


def value(result: Result, split: Split, measure: Measure) -> float | None:
    """A measure of one run; one that diverged has answered nothing, and has no cross-entropy."""
    if diverged(result):
        return None if measure == "cross_entropy" else 0.0
    return float(result["tests"][split][measure])


def score(group: Group, split: Split, measure: Measure) -> Score | None:
    """A measure over the finished seeds of ``group``; None if there is none."""
    found = [value(result, split, measure) for result in group.runs.values()]
    values = [each for each in found if each is not None]
    if not values:
        return None
    if len(values) > 1:
        return Score(fmean(values), spread=(min(values), max(values)))
    (result,) = (run for run in group.runs.values() if value(run, split, measure) is not None)
    if measure != "exact_match" or diverged(result):
        return Score(values[0])
    low, high = result["tests"][split]["exact_match_interval"]
    return Score(values[0], interval=(low, high))


def left_plateau(group: Group) -> int:
    """How many of the finished seeds have learned the task at all."""
    matches = (value(result, "iid", "exact_match") for result in group.runs.values())
    return sum(match is not None and match > PLATEAU for match in matches)


def mean_score(
    results: GridResults, model: str, split: Split, measure: Measure
) -> tuple[Score | None, int]:
    """The mean over all tasks, and how many tasks have a score; no mean unless all have."""
    groups = [results.group(task, model) for task in results.grid.tasks]
    scores = [score(group, split, measure) for group in groups]
    found = [each for each in scores if each is not None]
    if len(found) < len(groups):
        return None, len(found)
    by_seed = [_mean_of_seed(groups, seed, split, measure) for seed in groups[0].seeds]
    means = [each for each in by_seed if each is not None]
    # A range of some of the seeds need not hold the mean of all results.
    whole = len(means) == len(by_seed) > 1
    spread = (min(means), max(means)) if whole else None
    return Score(fmean(each.mean for each in found), spread=spread), len(found)


def _mean_of_seed(
    groups: Sequence[Group], seed: int, split: Split, measure: Measure
) -> float | None:
    """The mean of one seed over all tasks, if it has a value on each."""
    found = [value(group.runs[seed], split, measure) for group in groups if seed in group.runs]
    values = [each for each in found if each is not None]
    return fmean(values) if len(values) == len(groups) else None

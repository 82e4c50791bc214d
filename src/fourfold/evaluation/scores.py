"""From answers to scores."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from random import Random
from statistics import fmean
from typing import Any

from fourfold.evaluation.answers import Answer
from fourfold.tasks.example import Example, Part

RESAMPLES = 1000


def exact(answer: Answer) -> float:
    """1 if all was said that was asked for and nothing else."""
    return float(answer.said == answer.right)


def token_accuracy(answer: Answer) -> float:
    """Share of the places of the right answer at which the right token was said."""
    return fmean(
        float(place < len(answer.said) and answer.said[place] == token)
        for place, token in enumerate(answer.right)
    )


def spoken_parts(answer: Answer) -> list[tuple[Part, tuple[int, ...]]]:
    """Each part of the answer that was asked for, with what was said in its stead.

    A single part is set against everything said before the end; of several, each against its own
    places.
    """
    question = answer.question
    if question is None:
        return []
    ended = answer.said[-1:] == (question.end,)
    if len(question.parts) == 1:
        return [(question.parts[0], answer.said[:-1] if ended else answer.said)]
    found, start = [], 0
    for part in question.parts:
        stop = start + len(part.tokens)
        found.append((part, answer.said[start:stop]))
        start = stop
    return found


def part_scores(answers: Iterable[Answer]) -> dict[str, tuple[float, int]]:
    """Share and number of parts, by what they are about.

        current     of parts that were changed: the current version was said
        stale       of parts with an earlier version: such a one was said
        untouched   of parts that no change named: said rightly
        empty       of parts that hold nothing: this was said
        told        of parts that the context told: said rightly
        known       of parts that no context tells, for they never change: said rightly

    Absent where no part is of the kind.
    """
    found: dict[str, list[float]] = defaultdict(list)
    for answer in answers:
        for part, said in spoken_parts(answer):
            if part.kind != "plain":
                found[part.kind].append(float(said == part.tokens))
            if part.stale:
                found["stale"].append(float(said in part.stale))
    return {name: (fmean(values), len(values)) for name, values in sorted(found.items())}


def bootstrap(
    strata: Sequence[Sequence[Sequence[float]]], *, level: float = 0.95, seed: int = 0
) -> tuple[float, float]:
    """An interval of the mean over strata of the mean of all values in each (percentiles).

    Args:
        strata: for each task, the values of each example. Whole examples are drawn anew, since
            questions about one context hang together.

    Raises:
        ValueError: a stratum without a value.
    """
    sums = [[(sum(group), len(group)) for group in stratum if group] for stratum in strata]
    if not sums or not all(sums):
        raise ValueError("strata must hold at least one value each; got an empty one.")
    random = Random(seed)
    means = []
    for _ in range(RESAMPLES):
        shares = []
        for stratum in sums:
            drawn = random.choices(stratum, k=len(stratum))
            shares.append(sum(total for total, _ in drawn) / sum(count for _, count in drawn))
        means.append(fmean(shares))
    means.sort()
    tail = round((1 - level) / 2 * RESAMPLES)
    return means[tail], means[RESAMPLES - 1 - tail]


def summarise(examples: Sequence[Example], answers: Sequence[Answer]) -> dict[str, Any]:
    """All scores of one set of examples, as shares from 0 to 1.

    Returns:
        exact_match with its 95 % interval, token_accuracy, parts (see ``part_scores``) and by_load;
        of a mixture, by_task in place of the latter two, and the other scores are means over tasks.
    """
    by_task: dict[str, list[Answer]] = defaultdict(list)
    for answer in answers:
        by_task[examples[answer.example].task].append(answer)
    scores = {task: _scores(examples, found) for task, found in sorted(by_task.items())}
    overall = {
        "examples": len(examples),
        "questions": len(answers),
        "exact_match": fmean(score["exact_match"] for score in scores.values()),
        "exact_match_interval": bootstrap([_by_example(found) for found in by_task.values()]),
        "token_accuracy": fmean(score["token_accuracy"] for score in scores.values()),
    }
    return overall | ({"by_task": scores} if set(scores) != {""} else scores[""])


def _by_example(answers: Sequence[Answer]) -> list[list[float]]:
    groups: dict[int, list[float]] = defaultdict(list)
    for answer in answers:
        groups[answer.example].append(exact(answer))
    return list(groups.values())


def _scores(examples: Sequence[Example], answers: Sequence[Answer]) -> dict[str, Any]:
    """Scores of the answers of one task."""
    loads: dict[int, list[float]] = defaultdict(list)
    for answer in answers:
        loads[examples[answer.example].load].append(exact(answer))
    return {
        "exact_match": fmean(map(exact, answers)),
        "token_accuracy": fmean(map(token_accuracy, answers)),
        "parts": {
            name: {"share": share, "of": count}
            for name, (share, count) in part_scores(answers).items()
        },
        "by_load": {
            str(load): {"exact_match": fmean(values), "questions": len(values)}
            for load, values in sorted(loads.items())
        },
    }

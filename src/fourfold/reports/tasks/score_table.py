"""The big tables: tasks by models, one for each split and measure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fourfold.reports.tasks.results import GridResults, Group
from fourfold.reports.tasks.scores import Measure, Score, left_plateau, mean_score, score
from fourfold.reports.tasks.table import NOTHING, Entry, Table, count, percent
from fourfold.tasks import Split

MEAN = "mean"


def score_table(results: GridResults, split: Split, measure: Measure) -> Table:
    """A row for each task and one for their mean, a column for each model."""
    rows = [
        (task, [_entry(results, group, split, measure) for group in results.groups(task)])
        for task in results.grid.tasks
    ]
    rows.append((MEAN, _means(results, split, measure)))
    return _marked("task", results, rows, measure, foot=1)


def short_table(results: GridResults) -> Table:
    """Exact match IID and the means of all splits, without ranges.

    How many seeds learned a task is said only where some did and others did not.
    """
    rows = [
        (
            task,
            [
                _entry(results, group, "iid", "exact_match", brief=True)
                for group in results.groups(task)
            ],
        )
        for task in results.grid.tasks
    ]
    splits: dict[str, Split] = {MEAN: "iid", "mean, OOD": "ood", "mean, Stress": "stress"}
    for name, split in splits.items():
        rows.append((name, _means(results, split, "exact_match", brief=True)))
    return _marked("exact match, IID, %", results, rows, "exact_match", foot=len(splits))


def mean_entry(
    results: GridResults, model: str, split: Split, measure: Measure, *, brief: bool = False
) -> Entry:
    """The mean of a model over all tasks, or over how many there would be one.

    Args:
        brief: without the range between the seeds.
    """
    found, rows = mean_score(results, model, split, measure)
    if found is None:
        return Entry(NOTHING, (f"{rows} of {count(len(results.grid.tasks), 'row')}",), flag=True)
    lacks = _lacks([results.group(task, model) for task in results.grid.tasks])
    notes = lacks if brief else [*_range(found, measure), *lacks]
    return Entry(_show(found.mean, measure), tuple(notes), flag=bool(lacks))


def _marked(
    title: str,
    results: GridResults,
    rows: list[tuple[str, list[Entry]]],
    measure: Measure,
    *,
    foot: int,
) -> Table:
    return Table(
        header=(title, *results.grid.models),
        rows=tuple((Entry(name), *mark_best(entries, measure)) for name, entries in rows),
        foot=foot,
    )


def mark_best(entries: list[Entry], measure: Measure) -> list[Entry]:
    """Mark all entries that show the best figure, unless all are alike.

    What differs beyond the digits that are shown is no better.
    """
    shown = {float(entry.text) for entry in entries if entry.text != NOTHING}
    if len(shown) < 2:
        return entries
    best = min(shown) if measure == "cross_entropy" else max(shown)
    return [
        replace(entry, best=entry.text != NOTHING and float(entry.text) == best)
        for entry in entries
    ]


def _means(
    results: GridResults, split: Split, measure: Measure, *, brief: bool = False
) -> list[Entry]:
    return [
        mean_entry(results, model, split, measure, brief=brief) for model in results.grid.models
    ]


def _entry(
    results: GridResults, group: Group, split: Split, measure: Measure, *, brief: bool = False
) -> Entry:
    found = score(group, split, measure)
    if found is None:
        return Entry(NOTHING, (_why_nothing(results, group),), flag=True)
    notes = [] if brief else _range(found, measure)
    left, runs = left_plateau(group), len(group.runs)
    if measure == "exact_match" and (not brief or 0 < left < runs):
        notes.append(f"{left}/{runs}")
    lacks = _lacks([group])
    return Entry(_show(found.mean, measure), (*notes, *lacks), flag=bool(lacks))


def _lacks(groups: Sequence[Group]) -> list[str]:
    """How many runs diverged, and how many are not finished."""
    counts = {
        "diverged": sum(len(group.diverged) for group in groups),
        "missing": sum(len(group.missing) for group in groups),
    }
    return [f"{number} {word}" for word, number in counts.items() if number]


def _why_nothing(results: GridResults, group: Group) -> str:
    """Why a model has no score on a task, in a few words."""
    if group.rate is not None:
        return "diverged" if group.runs else f"0 of {count(len(group.seeds), 'seed')}"
    if results.grid.models[group.model].rate_of is not None:
        return "rate open"
    sweep = results.schedule.sweep(group.task, group.model)
    done = sum(cell in results.cells for cell in sweep)
    return f"{done} of {count(len(sweep), 'rate')}"


def _range(found: Score, measure: Measure) -> list[str]:
    if found.spread is not None:
        return ["–".join(_show(end, measure) for end in found.spread)]
    if found.interval is not None:
        return [f"[{'–'.join(_show(end, measure) for end in found.interval)}]"]
    return []


def _show(value: float, measure: Measure) -> str:
    return f"{value:.3f}" if measure == "cross_entropy" else percent(value)

"""The big tables: tasks by models, one for each split and measure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fourfold.reports.tasks.results import GridResults, Group
from fourfold.reports.tasks.scores import Measure, Score, left_plateau, mean_score, score
from fourfold.reports.tasks.table import NOTHING, Entry, Table, count, percent
from fourfold.tasks import Split

MEAN = "mean"


def score_table(results: GridResults, split: Split, measure: Measure) -> Table:
    """A row for each task and one for their mean, a column for each model; see ``LEGEND``."""
    show = _nats if measure == "cross_entropy" else percent
    best = min if measure == "cross_entropy" else max
    rows = [
        (task, [_entry(results, group, split, measure, show) for group in results.groups(task)])
        for task in results.grid.tasks
    ]
    rows.append((MEAN, [_mean(results, model, split, measure, show) for model in _models(results)]))
    return Table(
        header=("task", *_models(results)),
        rows=tuple((Entry(name), *mark_best(entries, best)) for name, entries in rows),
    )


def short_table(results: GridResults) -> Table:
    """Exact match IID and the means of all splits, without the notes that a reader can do without.

    Of the notes one stays: how many seeds learned a task, where some did and others did not.
    """
    rows = []
    for task in results.grid.tasks:
        groups = results.groups(task)
        entries = [_entry(results, group, "iid", "exact_match", percent) for group in groups]
        rows.append((task, [_shortened(*pair) for pair in zip(entries, groups, strict=True)]))
    splits: tuple[tuple[str, Split], ...] = (
        (MEAN, "iid"),
        ("mean, OOD", "ood"),
        ("mean, Stress", "stress"),
    )
    for name, split in splits:
        entries = [
            _mean(results, model, split, "exact_match", percent) for model in _models(results)
        ]
        rows.append(
            (name, [each if each.text == NOTHING else replace(each, notes=()) for each in entries])
        )
    return Table(
        header=("exact match, IID, %", *_models(results)),
        rows=tuple((Entry(name), *mark_best(entries, max)) for name, entries in rows),
    )


def mark_best(entries: list[Entry], best: Callable[[list[float]], float]) -> list[Entry]:
    """Mark all entries that show the best figure; what differs beyond its digits is no better."""
    shown = [float(entry.text) for entry in entries if entry.text != NOTHING]
    if not shown:
        return entries
    winner = best(shown)
    return [
        replace(entry, best=entry.text != NOTHING and float(entry.text) == winner)
        for entry in entries
    ]


def why_nothing(results: GridResults, group: Group) -> str:
    """Why a model has no score on a task, in a few words."""
    if group.rate is not None:
        return "no finished seed" if not group.runs else "diverged"
    leader = results.grid.models[group.model].rate_of
    if leader is not None:
        return f"rate of {leader} open"
    sweep = results.schedule.sweep(group.task, group.model)
    done = sum(cell in results.cells for cell in sweep)
    return f"{done} of {count(len(sweep), 'rate')}"


def _models(results: GridResults) -> list[str]:
    return list(results.grid.models)


def _entry(
    results: GridResults, group: Group, split: Split, measure: Measure, show: Callable[[float], str]
) -> Entry:
    found = score(group, split, measure)
    if found is None:
        return Entry(NOTHING, (why_nothing(results, group),), flag=True)
    notes = _range(found, show)
    if measure == "exact_match":
        notes.append(f"{left_plateau(group)}/{len(group.runs)}")
    if group.missing:
        notes.append(f"{len(group.missing)} missing")
    if group.diverged:
        notes.append(f"{len(group.diverged)} diverged")
    return Entry(show(found.mean), tuple(notes), flag=bool(group.missing or group.diverged))


def _mean(
    results: GridResults, model: str, split: Split, measure: Measure, show: Callable[[float], str]
) -> Entry:
    found, rows = mean_score(results, model, split, measure)
    if found is None:
        return Entry(NOTHING, (f"{rows} of {count(len(results.grid.tasks), 'row')}",), flag=True)
    notes = _range(found, show)
    missing = sum(len(results.group(task, model).missing) for task in results.grid.tasks)
    if missing:
        notes.append(f"{missing} missing")
    return Entry(show(found.mean), tuple(notes), flag=bool(missing))


def _range(found: Score, show: Callable[[float], str]) -> list[str]:
    if found.spread is not None:
        return ["–".join(map(show, found.spread))]
    if found.interval is not None:
        return [f"[{'–'.join(map(show, found.interval))}]"]
    return []


def _shortened(entry: Entry, group: Group) -> Entry:
    if entry.text == NOTHING:
        return entry
    left, runs = left_plateau(group), len(group.runs)
    notes = [f"{left}/{runs}"] if 0 < left < runs else []
    if group.missing:
        notes.append(f"{len(group.missing)} missing")
    return replace(entry, notes=tuple(notes))


def _nats(loss: float) -> str:
    return f"{loss:.3f}"

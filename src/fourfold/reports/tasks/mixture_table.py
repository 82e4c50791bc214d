"""What a mixture of tasks came to on each of them."""

from __future__ import annotations

from statistics import fmean

from fourfold.reports.tasks.results import GridResults, Group, diverged
from fourfold.reports.tasks.score_table import mark_best
from fourfold.reports.tasks.table import NOTHING, Entry, Table, percent
from fourfold.tasks import Split
from fourfold.tasks.mixture import Mixture


def mixtures(results: GridResults) -> list[str]:
    """The tasks of the grid that are mixtures."""
    tasks = results.grid.built_tasks
    return [name for name, task in tasks.items() if isinstance(task, Mixture)]


def mixture_table(results: GridResults, name: str, split: Split) -> Table:
    """Exact match of the models trained on the mixture ``name``, a row for each of its tasks."""
    mixture = results.grid.built_tasks[name]
    assert isinstance(mixture, Mixture)
    groups = results.groups(name)
    rows = []
    for task in mixture.tasks:
        entries = [_entry(group, task.name, split) for group in groups]
        rows.append((Entry(task.name), *mark_best(entries, "exact_match")))
    return Table((f"task within {name}", *results.grid.models), tuple(rows))


def _entry(group: Group, task: str, split: Split) -> Entry:
    """The mean over the seeds; a run that diverged answered nothing."""
    shares = [
        0.0 if diverged(run) else run["tests"][split]["by_task"][task]["exact_match"]
        for run in group.runs.values()
        if diverged(run) or task in run["tests"][split]["by_task"]
    ]
    return Entry(percent(fmean(shares))) if shares else Entry(NOTHING, flag=True)

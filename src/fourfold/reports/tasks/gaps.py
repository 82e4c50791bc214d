"""What of a grid is not there, and what is there but failed."""

from __future__ import annotations

from collections.abc import Sequence

from fourfold.reports.tasks.results import GridResults, Group, diverged
from fourfold.reports.tasks.table import Entry, Table, listed


def count_table(results: GridResults) -> Table:
    """Finished cells of those that belong to each task and model."""
    rows = []
    for task in results.grid.tasks:
        entries = []
        for model in results.grid.models:
            done, planned = len(results.of(task, model)), _planned(results, model)
            entries.append(Entry(f"{done}/{planned}", flag=done < planned))
        rows.append((Entry(task), *entries))
    return Table(("task", *results.grid.models), tuple(rows))


def missing_cells(results: GridResults) -> list[str]:
    """A line for each task and model of which cells are not finished."""
    return [
        f"{task}, {group.model}: {gap}"
        for task in results.grid.tasks
        for group in results.groups(task)
        if (gap := _gap(results, group))
    ]


def diverged_cells(results: GridResults, *, counted: bool) -> list[str]:
    """A line for each training whose loss was no longer finite.

    Args:
        counted: those that count as exact match 0, or else those whose rate was not chosen.
    """
    lines = []
    for task in results.grid.tasks:
        for group in results.groups(task):
            for cell in sorted(results.cells):
                result = results.cells[cell]
                if (cell.task, cell.model) == (task, group.model) and diverged(result):
                    in_tables = group.runs.get(cell.seed) is result
                    if in_tables == counted:
                        lines.append(f"{cell}: at step {result['diverged_at']:,}")
    return lines


def _planned(results: GridResults, model: str) -> int:
    seeds = len(results.grid.seeds_of(model))
    searched = results.grid.models[model].rate_of is None
    return len(results.grid.rates) - 1 + seeds if searched else seeds


def _gap(results: GridResults, group: Group) -> str:
    """What a group lacks; empty if it lacks nothing."""
    leader = results.grid.models[group.model].rate_of
    if group.rate is not None:
        whose = "" if leader is None else f", that of {leader}"
        gap = f"{_seeds(group.missing)} at rate {group.rate:g}{whose}"
        return gap if group.missing else ""
    if leader is not None:
        return f"{_seeds(group.seeds)}, which wait for the rate of {leader}"
    sweep = results.schedule.sweep(group.task, group.model)
    rates = [f"{cell.rate:g}" for cell in sweep if cell not in results.cells]
    gap = f"rate{'s' * (len(rates) > 1)} {listed(rates)} of the search"
    others = group.seeds[1:]
    return f"{gap}, then {_seeds(others)} at the best" if others else gap


def _seeds(seeds: Sequence[int]) -> str:
    return f"seed{'s' * (len(seeds) > 1)} {listed(seeds)}"

"""The results of a grid, arranged by what they are about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fourfold.grid import Cell, Grid, Schedule
from fourfold.grid.gather import gather

Result = Mapping[str, Any]


@dataclass(frozen=True)
class Group:
    """The runs of one model on one task at the rate that was chosen.

    Attributes:
        task, model: whose they are.
        rate: that was chosen; None while the search for it is not finished.
        seeds: with which the model is to be trained.
        runs: those that are finished, by seed.
    """

    task: str
    model: str
    rate: float | None
    seeds: tuple[int, ...]
    runs: Mapping[int, Result]

    @property
    def missing(self) -> tuple[int, ...]:
        """The seeds that are not finished."""
        return tuple(seed for seed in self.seeds if seed not in self.runs)

    @property
    def diverged(self) -> tuple[int, ...]:
        """The seeds with which the training diverged."""
        return tuple(seed for seed, result in self.runs.items() if diverged(result))


@dataclass(frozen=True)
class GridResults:
    """A grid and what is finished of it.

    Attributes:
        schedule: the grid with its results.
        unused: result files that belong to no cell of the grid.
    """

    schedule: Schedule
    unused: tuple[Path, ...] = ()

    @property
    def grid(self) -> Grid:
        return self.schedule.grid

    @property
    def cells(self) -> Mapping[Cell, Result]:
        """Every finished cell."""
        return self.schedule.results

    def leaders(self) -> list[str]:
        """The models that search their own rate."""
        return [name for name, entry in self.grid.models.items() if entry.rate_of is None]

    def group(self, task: str, model: str) -> Group:
        """The runs of a model on a task at the chosen rate."""
        rate, seeds = self.schedule.best_rate(task, model), self.grid.seeds_of(model)
        runs = {}
        if rate is not None:
            cells = (Cell(task, model, rate, seed) for seed in seeds)
            runs = {cell.seed: self.cells[cell] for cell in cells if cell in self.cells}
        return Group(task, model, rate, seeds, runs)

    def groups(self, task: str) -> list[Group]:
        """Those of all models on a task."""
        return [self.group(task, model) for model in self.grid.models]

    def of(self, task: str | None = None, model: str | None = None) -> list[Result]:
        """All finished runs on a task, of a model, or both, whatever their rate."""
        return [
            result
            for cell, result in self.cells.items()
            if task in (None, cell.task) and model in (None, cell.model)
        ]


def diverged(result: Result) -> bool:
    """Whether a training ended because its loss was no longer finite."""
    return result["diverged_at"] is not None


def read_results(grid: Grid, folder: Path) -> GridResults:
    """What is finished of ``grid`` in ``folder``.

    Raises:
        FileNotFoundError: nothing is.
        ValueError: a result there is of other settings, or is no result file.
    """
    schedule = Schedule(grid)
    gather(schedule, folder)
    if not schedule.results:
        raise FileNotFoundError(
            f"{folder} holds no result of this grid; run fourfold tasks run first."
        )
    used = {folder / cell.path for cell in schedule.results}
    unused = (path for path in sorted(folder.glob("cells/*/*/*.json")) if path not in used)
    return GridResults(schedule, tuple(path.relative_to(folder) for path in unused))

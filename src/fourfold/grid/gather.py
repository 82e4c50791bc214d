"""Taking up what earlier runs of a grid have finished."""

from __future__ import annotations

from pathlib import Path

from fourfold.grid.cell import finished
from fourfold.grid.schedule import Schedule


def gather(schedule: Schedule, folder: Path) -> None:
    """Add to ``schedule`` the results that lie in ``folder``.

    Raises:
        ValueError: one of them is of other settings, or is no result file.
    """
    # What is found may make further cells known, whose results may be there too.
    while found := {
        cell: result
        for cell in schedule.open()
        if (result := finished(schedule.grid, cell, folder)) is not None
    }:
        schedule.results.update(found)

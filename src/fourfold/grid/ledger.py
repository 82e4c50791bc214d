"""What becomes of the cells that an executor runs, whichever it is."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fourfold.grid.cell import Cell, write_cell
from fourfold.grid.schedule import Schedule
from fourfold.training import Step

DEATHS = 3
"""After so many deaths of its process a cell is given up."""
INTERVAL = 0.5
"""Seconds between two reports of progress."""


@dataclass(frozen=True)
class Event:
    """Something that happened to a cell.

    Attributes:
        cell: which.
        kind: "step", "finished", "lost" (its process died; the cell is run again) or "failed".
        step: of a "step".
        message: of "lost" and "failed", a sentence.
    """

    cell: Cell
    kind: str
    step: Step | None = None
    message: str = ""


@dataclass
class Ledger:
    """Keeps results, counts deaths, and tells of both.

    Attributes:
        schedule: of the grid; its results are added to.
        folder: where results are written.
        on_event: is told.
        given_up: cells that will not be run again.
    """

    schedule: Schedule
    folder: Path
    on_event: Callable[[Event], None]
    given_up: list[Cell] = field(default_factory=list)
    _deaths: Counter[Cell] = field(default_factory=Counter)

    def waiting(self, busy: Collection[Cell]) -> list[Cell]:
        """The cells that can be started, other than those that are running."""
        return [c for c in self.schedule.open() if c not in busy and c not in self.given_up]

    def settle(self, cell: Cell, kind: str, content: Any) -> None:
        """Enter how a run of ``cell`` ended.

        Args:
            kind: "finished", "failed" or "lost".
            content: the result of a finished one, a sentence about the others.
        """
        if kind == "finished":
            write_cell(cell, self.folder, content)
            self.schedule.results[cell] = content
            self.on_event(Event(cell, kind))
            return
        self.on_event(Event(cell, kind, message=content))
        if kind == "lost":
            self._deaths[cell] += 1
            if self._deaths[cell] < DEATHS:
                return
            self.on_event(Event(cell, "failed", message="It is given up."))
        self.given_up.append(cell)


def seldom(tell: Callable[[Step], None]) -> Callable[[Step], None]:
    """``tell``, but called no more often than once an INTERVAL."""
    told = -INTERVAL

    def wrapped(step: Step) -> None:
        nonlocal told
        if time.monotonic() - told > INTERVAL:
            told = time.monotonic()
            tell(step)

    return wrapped

"""Running a grid on this machine: cells side by side, each in a process that may die."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch

from fourfold.grid.cell import Cell, run_cell, write_cell
from fourfold.grid.config import Grid
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


def run_locally(
    schedule: Schedule, folder: Path, *, workers: int, on_event: Callable[[Event], None]
) -> list[Cell]:
    """Run what is open until nothing is, and keep each result as soon as it is there.

    The threads that torch takes are divided among the workers.

    Returns:
        the cells that were given up.
    """
    threads = max(1, torch.get_num_threads() // workers)
    deaths: dict[Cell, int] = {}
    given_up: list[Cell] = []
    crew: list[_Worker] = []
    try:
        while True:
            busy = {worker.cell for worker in crew if worker.cell is not None}
            waiting = [c for c in schedule.open() if c not in busy and c not in given_up]
            idle = [worker for worker in crew if worker.cell is None]
            for cell in waiting[: workers - len(busy)]:
                worker = idle.pop() if idle else _Worker(schedule.grid, folder, threads)
                if worker not in crew:
                    crew.append(worker)
                worker.start(cell)
            running = [worker for worker in crew if worker.cell is not None]
            if not running:
                return given_up
            by_source = {source: worker for worker in running for source in worker.sources}
            for worker in {by_source[source] for source in wait(list(by_source))}:
                event = worker.receive()
                on_event(event)
                if event.kind == "finished":
                    schedule.results[event.cell] = worker.result
                elif event.kind == "failed":
                    given_up.append(event.cell)
                elif event.kind == "lost":
                    crew.remove(worker)
                    deaths[event.cell] = deaths.get(event.cell, 0) + 1
                    if deaths[event.cell] == DEATHS:
                        given_up.append(event.cell)
                        on_event(Event(event.cell, "failed", message="It is given up."))
    finally:
        for worker in crew:
            worker.stop()


def seldom(tell: Callable[[Step], None]) -> Callable[[Step], None]:
    """``tell``, but called no more often than once an INTERVAL."""
    told = -INTERVAL

    def wrapped(step: Step) -> None:
        nonlocal told
        if time.monotonic() - told > INTERVAL:
            told = time.monotonic()
            tell(step)

    return wrapped


class _Worker:
    """A process of its own that runs one cell after another."""

    def __init__(self, grid: Grid, folder: Path, threads: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self.process = context.Process(
            target=_serve, args=(other, grid, folder, threads), daemon=True
        )
        self.process.start()
        other.close()
        self.folder = folder
        self.cell: Cell | None = None
        self.result: dict[str, Any] = {}

    @property
    def sources(self) -> list[Any]:
        """What to wait for: a message, or the end of the process."""
        return [self.connection, self.process.sentinel]

    def start(self, cell: Cell) -> None:
        self.cell = cell
        with contextlib.suppress(ConnectionError):  # it has just died, as receive() will find
            self.connection.send(cell)

    def receive(self) -> Event:
        """The next event; a result is kept before it is told of."""
        assert self.cell is not None
        cell = self.cell
        try:
            kind, content = self.connection.recv()
        except (EOFError, OSError):
            self.cell = None
            self.process.join()
            return Event(
                cell,
                "lost",
                message=f"The process of {cell} died with code {self.process.exitcode}.",
            )
        if kind == "step":
            return Event(cell, "step", step=content)
        self.cell = None
        if kind == "failed":
            return Event(cell, "failed", message=content)
        write_cell(cell, self.folder, content)
        self.result = content
        return Event(cell, "finished")

    def stop(self) -> None:
        self.process.kill()
        self.process.join()


def _serve(connection: Connection, grid: Grid, folder: Path, threads: int) -> None:
    """The other process: run the cells that are sent, until there is nobody to send one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asks
    torch.set_num_threads(threads)
    tell = seldom(lambda step: connection.send(("step", step)))
    with contextlib.suppress(EOFError, ConnectionError):  # whoever asked is gone
        while True:
            cell = connection.recv()
            try:
                answer: tuple[str, Any] = ("finished", run_cell(grid, cell, folder, tell))
            except ConnectionError:
                raise
            except Exception as error:
                answer = ("failed", f"{cell}: {type(error).__name__}: {error}")
            connection.send(answer)

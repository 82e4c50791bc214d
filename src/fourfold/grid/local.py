"""Running a grid on this machine: cells side by side, each in a process that may die."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch

from fourfold.grid.cell import Cell, run_cell
from fourfold.grid.config import Grid
from fourfold.grid.ledger import Event, Ledger, seldom
from fourfold.grid.schedule import Schedule
from fourfold.memory_files import MemoryFile, load_the_same, memory_files_of


def run_locally(
    schedule: Schedule, folder: Path, *, workers: int, on_event: Callable[[Event], None]
) -> list[Cell]:
    """Run what is open until nothing is, and keep each result as soon as it is there.

    The threads that torch takes are divided among the workers.

    Returns:
        the cells that were given up.
    """
    threads = max(1, torch.get_num_threads() // workers)
    ledger = Ledger(schedule, folder, on_event)
    crew: list[_Worker] = []
    try:
        while True:
            busy = {worker.cell for worker in crew if worker.cell is not None}
            idle = [worker for worker in crew if worker.cell is None]
            for cell in ledger.waiting(busy)[: workers - len(busy)]:
                worker = idle.pop() if idle else _Worker(schedule.grid, folder, threads)
                if worker not in crew:
                    crew.append(worker)
                worker.start(cell)
            running = [worker for worker in crew if worker.cell is not None]
            if not running:
                return ledger.given_up
            by_source = {source: worker for worker in running for source in worker.sources}
            for worker in {by_source[source] for source in wait(list(by_source))}:
                cell, kind, content = worker.receive()
                if kind == "step":
                    on_event(Event(cell, kind, step=content))
                    continue
                if kind == "lost":
                    crew.remove(worker)
                ledger.settle(cell, kind, content)
    finally:
        for worker in crew:
            worker.stop()


class _Worker:
    """A process of its own that runs one cell after another."""

    def __init__(self, grid: Grid, folder: Path, threads: int) -> None:
        context = _context()
        self.connection, other = context.Pipe()
        self.process = context.Process(
            target=_serve,
            args=(other, grid, folder, threads, memory_files_of(grid.layer_types)),
            daemon=True,
        )
        self.process.start()
        other.close()
        self.cell: Cell | None = None

    @property
    def sources(self) -> list[Any]:
        """What to wait for: a message, or the end of the process."""
        return [self.connection, self.process.sentinel]

    def start(self, cell: Cell) -> None:
        self.cell = cell
        with contextlib.suppress(ConnectionError):  # it has just died, as receive() will find
            self.connection.send(cell)

    def receive(self) -> tuple[Cell, str, Any]:
        """Its cell, the kind of what is told of it, and what is told: see ``Event``."""
        assert self.cell is not None
        cell = self.cell
        try:
            kind, content = self.connection.recv()
        except (EOFError, OSError):
            self.process.join()
            kind = "lost"
            content = f"The process of {cell} died with code {self.process.exitcode}."
        if kind != "step":
            self.cell = None
        return cell, kind, content

    def stop(self) -> None:
        self.process.kill()
        self.process.join()


def _context() -> Any:
    """How processes are started: on Linux as forks of one that has imported what a cell needs."""
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([_serve.__module__])
    return context


def _serve(
    connection: Connection, grid: Grid, folder: Path, threads: int, memory_files: list[MemoryFile]
) -> None:
    """The other process: run the cells that are sent, until there is nobody to send one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asks
    torch.set_num_threads(threads)
    tell = seldom(lambda step: connection.send(("step", step)))
    with contextlib.suppress(EOFError, ConnectionError):  # whoever asked is gone
        while True:
            cell = connection.recv()
            try:
                load_the_same(memory_files)
                answer: tuple[str, Any] = ("finished", run_cell(grid, cell, folder, tell))
            except ConnectionError:
                raise
            except Exception as error:
                answer = ("failed", f"{cell}: {type(error).__name__}: {error}")
            connection.send(answer)

"""Running a grid on a Ray cluster: every cell a task, on whichever machine has room."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path
from typing import Any

import torch

from fourfold.grid.cell import Cell, run_cell
from fourfold.grid.config import Grid
from fourfold.grid.ledger import INTERVAL, Event, Ledger, seldom
from fourfold.grid.schedule import Schedule
from fourfold.memory_files import MemoryFile, load_the_same, memory_files_of
from fourfold.training import Step


def run_on_ray(
    schedule: Schedule, folder: Path, *, on_event: Callable[[Event], None]
) -> list[Cell]:
    """Run what is open until nothing is, and keep each result as soon as it is there.

    Every cell takes one CPU and one thread. The cluster is the one that this process is connected
    to already, else the one that RAY_ADDRESS names, else one that runs on this machine. Where there
    is none, and with RAY_ADDRESS=local, one is started for as long as it takes. Each of its
    machines needs the same fourfold as this one, and files of memories under the same path.

    Args:
        folder: where this process, and no other, writes the results. It need not be shared, unless
            the grid keeps models: these are saved by whichever machine has trained them, under the
            same path.

    Returns:
        the cells that were given up.

    Raises:
        ValueError: Ray is not installed, or the cluster does not answer or runs other versions.
    """
    try:
        import ray
    except ImportError as error:
        raise ValueError(
            'Running a grid on Ray needs Ray, which is not installed: pip install "fourfold[ray]".'
        ) from error
    connected = ray.is_initialized()
    if not connected:
        try:
            # Without usage statistics: a cluster that is started in this way sends none.
            ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError) as error:
            reason = str(error) or "it does not answer, or runs other versions."
            raise ValueError(f"The Ray cluster cannot be used: {reason}") from error
    running: dict[Any, Cell] = {}
    try:
        return _run_all(schedule, folder, on_event, running)
    finally:
        for reference in running:
            ray.cancel(reference, force=True)
        if not connected:
            ray.shutdown()  # of a cluster that was found running, this only takes leave


def _run_all(
    schedule: Schedule,
    folder: Path,
    on_event: Callable[[Event], None],
    running: dict[Any, Cell],
) -> list[Cell]:
    """What ``run_on_ray`` does while it is connected; ``running`` shows what has been sent off."""
    import ray
    from ray.exceptions import RayError, RayTaskError

    # A task that Ray ran again by itself would not be counted: deaths are dealt with here.
    task = ray.remote(num_cpus=1, max_retries=0)(_run)
    board = _board()
    ledger = Ledger(schedule, folder, on_event)
    while True:
        waiting = ledger.waiting(running.values())
        # As much again as runs: enough that a cluster which grows by demand does grow.
        room = 2 * max(1, int(ray.cluster_resources().get("CPU", 0))) - len(running)
        for cell in waiting[: max(0, room)]:
            named = task.options(name=str(cell))
            sent = named.remote(
                schedule.grid,
                cell,
                folder.absolute(),
                board,
                sys.argv,
                memory_files_of(schedule.grid.layer_types),
            )
            running[sent] = cell
        if not running:
            return ledger.given_up
        for reference in ray.wait(list(running), timeout=INTERVAL)[0]:
            cell = running.pop(reference)
            try:
                kind, content = ray.get(reference)
            except RayTaskError as error:
                kind, content = "failed", f"{cell}: {error.cause}"
            except RayError as error:
                kind, content = "lost", f"The process of {cell} died: {error}"
            ledger.settle(cell, kind, content)
        steps: dict[str, tuple[int, float, float]] = {}
        with contextlib.suppress(RayError):  # progress may be missed
            steps = ray.get(board.take.remote(), timeout=INTERVAL)
        for cell in running.values():
            if str(cell) in steps:
                on_event(Event(cell, "step", step=Step(*steps[str(cell)])))


def _run(
    grid: Grid,
    cell: Cell,
    folder: Path,
    board: Any,
    command: list[str],
    memory_files: list[MemoryFile],
) -> tuple[str, dict[str, Any] | str]:
    """The task: what kind of event it ends with, and the result or the message."""
    sys.argv = command  # results say by which command they came about
    torch.set_num_threads(1)
    tell = seldom(lambda step: board.tell.remote(str(cell), astuple(step)))
    try:
        load_the_same(memory_files)
        return "finished", run_cell(grid, cell, folder, tell)
    except Exception as error:
        return "failed", f"{cell}: {type(error).__name__}: {error}"


def _board() -> Any:
    """An actor on which tasks leave how far they are, in plain types.

    The class is not one of the module, which an actor would import with all of torch.
    """
    import ray

    class Board:
        def __init__(self) -> None:
            self.steps: dict[str, tuple[int, float, float]] = {}

        def tell(self, cell: str, step: tuple[int, float, float]) -> None:
            self.steps[cell] = step

        def take(self) -> dict[str, tuple[int, float, float]]:
            """The last step of each cell that has told of one since this was last asked."""
            steps, self.steps = self.steps, {}
            return steps

    return ray.remote(num_cpus=0)(Board).remote()

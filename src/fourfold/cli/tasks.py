"""``fourfold tasks``: what there is, what it looks like, and running a grid of it."""

from __future__ import annotations

import shlex
from pathlib import Path

from rich.progress import Progress, TaskID
from rich.table import Table
from transformers.utils import logging

from fourfold.cli.bars import bars
from fourfold.cli.common import console, say
from fourfold.files import write_atomically
from fourfold.grid import Cell, Grid, Schedule, read_grid
from fourfold.grid.gather import gather
from fourfold.grid.ledger import Event
from fourfold.grid.local import run_locally
from fourfold.grid.sizes import model_sizes
from fourfold.memory_files import memory_files_of
from fourfold.tasks import TASKS, Source, make_task
from fourfold.tasks.example import Question
from fourfold.tasks.registry import check_split
from fourfold.tasks.task import Task

CONFIG = "grid.yaml"
"""The copy of a grid's file beside its results."""


def task_table() -> Table:
    """All tasks, and what each asks for."""
    table = Table(header_style="bold")
    for title in ("task", "tests", "load", "example"):
        table.add_column(title)
    for name in TASKS:
        task = make_task(name)
        text = " ".join(map(task.word, Source(task).example("iid", 0).context))
        table.add_row(
            name, task.asks_for, task.load_is, text if len(text) < 60 else text[:57] + "…"
        )
    return table


def show_examples(*, task: str, split: str, count: int, seed: int) -> None:
    """Print examples one can read."""
    built, checked = make_task(task), check_split(split)
    source = Source(built, seed)
    say(f"{task}, {split}: {(type(built).__doc__ or '').splitlines()[0]}")
    for index in range(count):
        example = source.example(checked, index)
        which = f" of {example.task}" if example.task else ""
        say(f"\n{index}{which}: load {example.load}, {len(example.context)} tokens to read")
        read = " ".join(map(built.word, example.context))
        say(f"  {read}")
        for place, token in example.probes:
            say(
                f"    after token {place} ({built.word(example.context[place])}):  "
                f"{built.word(token)}"
            )
        for question in example.questions:
            say(f"    {_question(built, question)}")


def _question(task: Task, question: Question) -> str:
    def words(tokens: tuple[int, ...]) -> str:
        return " ".join(map(task.word, tokens))

    text = f"{words(question.prompt)}  {words(question.answer)}"
    for part in question.parts:
        notes: list[str] = [] if part.kind == "plain" else [part.kind]
        notes += ["stale: " + ", ".join(map(words, part.stale))] if part.stale else []
        text += f"    [{'; '.join(notes)}]" if notes else ""
    return text


def size_table(grid: Grid) -> Table:
    """What each model of ``grid`` is made of."""
    table = Table(header_style="bold")
    for title in (
        "model",
        "parameters",
        "of budget",
        "feed-forward",
        "state numbers a layer",
        "state bytes",
    ):
        table.add_column(title, justify="left" if title == "model" else "right")
    for size in model_sizes(grid):
        table.add_row(
            size.model,
            f"{size.parameters:,}",
            f"{size.parameters / grid.parameters - 1:+.2%}",
            f"{size.feed_forward:,}",
            f"{size.state_numbers:,}",
            f"{size.state_bytes:,}",
        )
    return table


def run_grid(schedule: Schedule, config: Path, out: Path, *, workers: int, executor: str) -> None:
    """Run what is open of a grid, with one display of progress.

    Args:
        config: the file of the grid, a copy of which is kept in ``out`` for the report.

    Raises:
        ValueError: a result of other settings lies in ``out``, or some cells could not be run.
    """
    logging.disable_progress_bar()
    grid = schedule.grid
    console.print(size_table(grid))
    gather(schedule, out)
    _keep_config(config, out)
    total = schedule.total()
    say(f"{len(schedule.results)} of {total} cells are finished already.")
    with bars(remaining=False) as progress:
        display = _Display(progress, schedule, total)
        if executor == "ray":
            from fourfold.grid.ray_cluster import run_on_ray

            given_up = run_on_ray(schedule, out, on_event=display.show)
        else:
            given_up = run_locally(schedule, out, workers=workers, on_event=display.show)
    if given_up:
        raise ValueError(
            f"{len(given_up)} cells could not be run, the first of them {given_up[0]}; the others "
            f"are in {out}. To try again, run the same command."
        )
    say(f"Results:  {out}/cells")
    say(f"Report:  {_command(grid, 'tasks', 'report', str(out))}")


def _command(grid: Grid, *words: str) -> str:
    """A command of fourfold that needs the memories of ``grid``."""
    files = memory_files_of(grid.layer_types)
    own = [word for file in files for word in ("--memory", str(file.path))]
    return shlex.join(["fourfold", *own, *words])


def report_grid(folder: Path, *, config: Path | None, table: str | None) -> None:
    """Write the report of the grid in ``folder``, or print its tables.

    Args:
        config: the file of the grid; by default the one in ``folder``.
        table: "short" or "full", to print as Markdown in place of a report.

    Raises:
        FileNotFoundError: no such grid, or nothing of it is finished.
        ValueError: ``table`` is something else, or a result is of other settings.
    """
    from fourfold.reports.tasks import (
        full_markdown,
        read_results,
        short_markdown,
        write_task_report,
    )

    if table not in (None, "short", "full"):
        raise ValueError(f"table must be short or full; got {table!r}.")
    if config is None and not (folder / CONFIG).exists():
        raise FileNotFoundError(
            f"{folder} holds no {CONFIG}; say with --config which grid was run into it."
        )
    grid = read_grid(config or folder / CONFIG)
    if table is None:
        path = write_task_report(grid, folder)
        say(f"Report:  {path}")
        say(f"Figures: {path.parent / 'figures'}")
        return
    results = read_results(grid, folder)
    show = short_markdown if table == "short" else full_markdown
    say(show(results))


def _keep_config(config: Path, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    kept = out / CONFIG
    if not (kept.exists() and kept.samefile(config)):
        write_atomically(kept, config.read_bytes())


class _Display:
    """One line for the grid and one for each cell that is running."""

    def __init__(self, progress: Progress, schedule: Schedule, total: int) -> None:
        self.progress, self.schedule = progress, schedule
        self.overall = progress.add_task(
            "all cells", total=total, completed=len(schedule.results), figures=""
        )
        self.lines: dict[Cell, TaskID] = {}

    def show(self, event: Event) -> None:
        steps = self.schedule.grid.training.steps
        if event.cell not in self.lines:
            self.lines[event.cell] = self.progress.add_task(
                str(event.cell), total=steps, figures=""
            )
        line = self.lines[event.cell]
        if event.kind == "step" and event.step is not None:
            self.progress.update(
                line, completed=event.step.step, figures=f"loss {event.step.loss:.3f}"
            )
            return
        self.progress.remove_task(self.lines.pop(event.cell))
        if event.kind == "finished":
            self.progress.advance(self.overall)
            if not console.is_terminal:  # where bars do not show, in a log
                say(f"{event.cell}: finished")
        else:
            say(event.message)

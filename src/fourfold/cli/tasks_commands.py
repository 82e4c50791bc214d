"""The commands ``fourfold tasks …``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fourfold.cli.common import console, plain_errors

tasks = typer.Typer(help="Synthetic memory tasks: list, show, run a grid of models, report.")

GridFile = Annotated[Path, typer.Argument(help="A grid as YAML: tasks, models, rates, seeds.")]


@tasks.callback()
def tasks_list(context: typer.Context) -> None:
    """Synthetic memory tasks. Without a further word: lists them."""
    if context.invoked_subcommand is None:
        from fourfold.cli.tasks import task_table

        console.print(task_table())


@tasks.command("show")
@plain_errors
def tasks_show(
    task: Annotated[str, typer.Argument(help="Its name, as fourfold tasks lists it.")],
    split: Annotated[str, typer.Option(help="train, validation, iid, ood or stress.")] = "iid",
    count: Annotated[int, typer.Option(min=1, help="How many examples.")] = 3,
    seed: Annotated[int, typer.Option(help="Of the examples.")] = 0,
) -> None:
    """Print examples of TASK in words."""
    from fourfold.cli.tasks import show_examples

    show_examples(task=task, split=split, count=count, seed=seed)


@tasks.command("sizes")
@plain_errors
def tasks_sizes(config: GridFile) -> None:
    """Print the parameters and the state of each model of CONFIG."""
    from fourfold.cli.tasks import size_table
    from fourfold.grid import read_grid

    console.print(size_table(read_grid(config)))


@tasks.command("run")
@plain_errors
def tasks_run(
    config: GridFile,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("runs/tasks"),
    workers: Annotated[
        int, typer.Option(min=1, help="Cells side by side; the threads are divided among them.")
    ] = 1,
    shard: Annotated[str, typer.Option(help="I/N: only the I-th of N parts, from 1.")] = "1/1",
    executor: Annotated[
        str, typer.Option(help="local, or ray: the cells go to a Ray cluster (extra 'ray').")
    ] = "local",
) -> None:
    """Train and measure every cell of the grid in CONFIG; what is finished is not done again."""
    from fourfold.cli.tasks import run_grid
    from fourfold.grid import Schedule, Shard, read_grid

    if executor not in ("local", "ray"):
        raise ValueError(f"executor must be local or ray; got {executor!r}.")
    schedule = Schedule(read_grid(config), Shard.parse(shard))
    run_grid(schedule, config, out, workers=workers, executor=executor)


@tasks.command("report")
@plain_errors
def tasks_report(
    folder: Annotated[Path, typer.Argument(help="Output folder of tasks run.")],
    config: Annotated[
        Path | None, typer.Option(help="The grid; by default the grid.yaml in FOLDER.")
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(help="short or full: print the tables as Markdown, and write nothing."),
    ] = None,
) -> None:
    """Draw report.html and figures from the results in FOLDER, finished or not."""
    from fourfold.cli.tasks import report_grid

    report_grid(folder, config=config, table=table)

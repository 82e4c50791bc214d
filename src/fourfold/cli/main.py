"""All commands; each is short and hands over to the library."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console

app = typer.Typer(
    help="Memory for language models: compare, talk, and keep what was read.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
bench = typer.Typer(help="Time operators and training steps, side by side in one run.")
app.add_typer(bench, name="bench", no_args_is_help=True)
tasks = typer.Typer(help="Synthetic memory tasks: list, show, run a grid of models, report.")
app.add_typer(tasks, name="tasks", invoke_without_command=True)
console = Console(highlight=False, emoji=False)

Command = TypeVar("Command", bound=Callable[..., Any])

ModelFolder = Annotated[Path, typer.Argument(help="Folder of a saved model and its tokenizer.")]
SessionFile = Annotated[Path | None, typer.Option("--session", help="Session file.")]
DataPath = Annotated[
    Path | None,
    typer.Option("--data", help="File or folder of .txt, .md, .jsonl. [default: Python's sources]"),
]
Rounds = Annotated[
    int | None, typer.Option(min=1, help="Turns of each that count; by default 7, or 2 if quick.")
]
Threads = Annotated[int | None, typer.Option(min=1, help="By default as many as torch takes.")]
Quick = Annotated[bool, typer.Option("--quick", help="Tiny sizes, to see that it runs.")]
GridFile = Annotated[Path, typer.Argument(help="A grid as YAML: tasks, models, rates, seeds.")]
BenchFolder = Annotated[Path, typer.Option(help="Folder for results and figure.")]


def plain_errors(command: Command) -> Command:
    """Show what a user did wrong as one sentence, not as a traceback."""

    @wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        logging.basicConfig(format="%(message)s")
        for stream in (sys.stdin, sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")  # a terminal may know fewer letters
        try:
            return command(*args, **kwargs)
        except (ValueError, ArithmeticError, OSError) as error:
            typer.echo(f"fourfold: {error}", err=True)
            raise typer.Exit(1) from error

    return wrapped  # type: ignore[return-value]


@app.command()
@plain_errors
def compare(
    data: DataPath = None,
    out: Annotated[Path, typer.Option(help="Folder for models, results, report.")] = Path(
        "runs/compare"
    ),
    steps: Annotated[int, typer.Option(min=1, help="Updates for each model.")] = 150,
    learning_rate: Annotated[float, typer.Option(help="Peak rate, the same for all.")] = 4e-3,
    seed: Annotated[int, typer.Option(help="Of weights and of the windows drawn.")] = 0,
) -> None:
    """Train ATPM, Gated DeltaNet, a Transformer and an LSTM of equal size on the same text.

    Prints a table and writes report.html. What is finished is not done again.
    """
    from fourfold.cli.compare import run_comparison
    from fourfold.data import load_corpus

    run_comparison(
        console,
        corpus=load_corpus(data),
        out=out,
        steps=steps,
        learning_rate=learning_rate,
        seed=seed,
    )


@app.command()
@plain_errors
def demo(
    out: Annotated[Path, typer.Option(help="Folder for all that it makes.")] = Path("runs/demo"),
    steps: Annotated[int, typer.Option(min=1, help="Updates for each model.")] = 150,
) -> None:
    """The whole in a few minutes: compare four memories, then carry one to another process."""
    from fourfold.cli.demo import run_demo

    run_demo(console, out=out, steps=steps)


@app.command()
@plain_errors
def report(
    folder: Annotated[Path, typer.Argument(help="Output folder of compare.")],
    table: Annotated[bool, typer.Option("--table", help="Print a Markdown table instead.")] = False,
) -> None:
    """Draw report.html again from the results in FOLDER."""
    from fourfold.reports import markdown_table, read_comparison, write_report

    if table:
        typer.echo(markdown_table(read_comparison(folder)))
    else:
        typer.echo(f"Report: {write_report(folder)}")


@app.command()
@plain_errors
def generate(
    model: ModelFolder,
    prompt: Annotated[str, typer.Option(help="Text to read first.")] = "",
    session: SessionFile = None,
    max_new_tokens: Annotated[int, typer.Option(min=0)] = 64,
    tokens: Annotated[bool, typer.Option("--tokens", help="Print token numbers.")] = False,
) -> None:
    """Print the likeliest continuation, from a prompt, a session, or both; changes no file."""
    from fourfold.cli.models import open_session

    opened = open_session(model, session)
    if tokens:
        new = opened.generate_tokens(prompt, max_new_tokens=max_new_tokens)
        typer.echo(" ".join(map(str, new)))
        return
    for piece in opened.stream(prompt, max_new_tokens=max_new_tokens):
        typer.echo(piece, nl=False)
    typer.echo()


@app.command()
@plain_errors
def chat(
    model: ModelFolder,
    session: SessionFile = None,
    max_new_tokens: Annotated[int, typer.Option(min=1)] = 120,
    temperature: Annotated[float, typer.Option(min=0.0, help="0 takes the likeliest token.")] = 0.7,
) -> None:
    """Talk to a model; it remembers, also the next time if a session file is given."""
    from fourfold.cli.chat import run_chat

    run_chat(
        console,
        model=model,
        path=session,
        max_new_tokens=max_new_tokens,
        temperature=temperature,
    )


@bench.command("ops")
@plain_errors
def bench_ops(
    shapes: Annotated[
        list[str] | None, typer.Option(help="B,T,H,S,D; may be given again; by default seven.")
    ] = None,
    rounds: Rounds = None,
    threads: Threads = None,
    modes: Annotated[
        str, typer.Option(help="Of these, with commas between.")
    ] = "forward,forward_backward,lengths,decode,memory",
    output: BenchFolder = Path("results/bench"),
    limit: Annotated[
        float, typer.Option(help="Seconds a first call may take; the slower are dropped.")
    ] = 60.0,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    dtype: Annotated[str, typer.Option(help="Of the vectors: float32 or bfloat16.")] = "float32",
    seed: Annotated[int, typer.Option(help="Of the inputs.")] = 0,
    quick: Quick = False,
) -> None:
    """Time the memory operators against each other and against those of other libraries."""
    import torch

    from fourfold.benchmarks.ops import QUICK, OpsOptions
    from fourfold.benchmarks.shapes import parse_shape
    from fourfold.cli.bench import run_ops_benchmark

    base = QUICK if quick else OpsOptions()
    options = replace(
        base,
        shapes=tuple(map(parse_shape, shapes)) if shapes else base.shapes,
        rounds=rounds or base.rounds,
        modes=tuple(modes.split(",")),
        limit=limit,
        device=device,
        dtype=dtype,
        seed=seed,
    )
    torch.set_num_threads(threads or torch.get_num_threads())
    run_ops_benchmark(console, options, output)


@bench.command("step")
@plain_errors
def bench_step(
    rounds: Rounds = None,
    threads: Threads = None,
    baseline: Annotated[
        Path | None, typer.Option(help="The src folder of another checkout to time against.")
    ] = None,
    pairs: Annotated[
        int | None,
        typer.Option(min=1, help="Pairs of processes, if there is a baseline; by default 3."),
    ] = None,
    output: BenchFolder = Path("results/bench"),
    seed: Annotated[int, typer.Option(help="Of weights and bytes.")] = 0,
    quick: Quick = False,
) -> None:
    """Time a training step of each compared model, with kernels and without, and two layers."""
    import torch

    from fourfold.benchmarks.step import QUICK, StepOptions
    from fourfold.cli.bench import run_step_benchmark

    base = QUICK if quick else StepOptions()
    options = replace(
        base,
        rounds=rounds or base.rounds,
        pairs=pairs or base.pairs,
        baseline=baseline,
        seed=seed,
    )
    torch.set_num_threads(threads or torch.get_num_threads())
    run_step_benchmark(console, options, output)


@bench.command("figure")
@plain_errors
def bench_figure(
    result: Annotated[Path, typer.Argument(help="The ops.json of bench ops.")],
) -> None:
    """Draw the figure of RESULT again, beside it."""
    from fourfold.reports.benchmarks import write_figure

    typer.echo(f"Figure: {write_figure(result)}")


@bench.command("table")
@plain_errors
def bench_table(
    result: Annotated[Path, typer.Argument(help="ops.json, or step.json with a baseline.")],
) -> None:
    """Print RESULT as the table that docs/performance.md shows."""
    from fourfold.reports.benchmarks import markdown

    typer.echo(markdown(result))


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

    show_examples(console, task=task, split=split, count=count, seed=seed)


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
        str, typer.Option(help="local, or ray: the cells go to a Ray cluster (fourfold[ray]).")
    ] = "local",
) -> None:
    """Train and measure every cell of the grid in CONFIG; what is finished is not done again."""
    from fourfold.cli.tasks import run_grid
    from fourfold.grid import Schedule, Shard, read_grid

    if executor not in ("local", "ray"):
        raise ValueError(f"executor must be local or ray; got {executor!r}.")
    schedule = Schedule(read_grid(config), Shard.parse(shard))
    run_grid(console, schedule, config, out, workers=workers, executor=executor)


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

    report_grid(console, folder, config=config, table=table)

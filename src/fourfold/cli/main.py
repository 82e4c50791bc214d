"""All commands; each is short and hands over to the library."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fourfold.cli.bench_commands import bench
from fourfold.cli.capacity import capacity
from fourfold.cli.common import plain_errors
from fourfold.cli.evaluate import evaluate
from fourfold.cli.harness import lm_eval
from fourfold.cli.inspect import inspect
from fourfold.cli.plan import plan
from fourfold.cli.plot_run import plot_run
from fourfold.cli.prove import prove
from fourfold.cli.tasks_commands import tasks
from fourfold.cli.tokenizer_commands import tokenizer

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(bench, name="bench", no_args_is_help=True)
app.add_typer(tasks, name="tasks", invoke_without_command=True)
app.add_typer(tokenizer, name="tokenizer", no_args_is_help=True)


@app.callback()
@plain_errors
def memories(
    memory: Annotated[
        list[Path] | None,
        typer.Option(
            "--memory",
            help="Before the command: a Python file of memories of your own; it is run.",
        ),
    ] = None,
) -> None:
    """Memory for language models: compare, talk, and keep what was read."""
    if memory:
        from fourfold.memory_files import load_memory_files

        load_memory_files(memory)


ModelFolder = Annotated[Path, typer.Argument(help="Folder of a saved model and its tokenizer.")]
SessionFile = Annotated[Path | None, typer.Option("--session", help="Session file.")]
Temperature = Annotated[float, typer.Option(min=0.0, help="0 takes the likeliest token.")]
DataPath = Annotated[
    Path | None,
    typer.Option(
        "--data",
        help="File or folder of .txt, .md, .jsonl, .parquet, also compressed; by default Python's "
        "sources.",
    ),
]


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
    also: Annotated[
        list[str] | None, typer.Option(help="A further memory, perhaps of your own; repeatable.")
    ] = None,
) -> None:
    """Train ATPM, Gated DeltaNet, a Transformer and an LSTM of equal size on the same text.

    Prints a table and writes report.html. What is finished is not done again.
    """
    from fourfold.cli.compare import run_comparison
    from fourfold.data import load_corpus

    run_comparison(
        corpus=load_corpus(data),
        out=out,
        steps=steps,
        learning_rate=learning_rate,
        seed=seed,
        also=tuple(also or ()),
    )


@app.command()
@plain_errors
def demo(
    out: Annotated[Path, typer.Option(help="Folder for all that it makes.")] = Path("runs/demo"),
    steps: Annotated[int, typer.Option(min=1, help="Updates for each model.")] = 150,
) -> None:
    """The whole in a few minutes: compare four memories, then carry one to another process."""
    from fourfold.cli.demo import run_demo

    run_demo(out=out, steps=steps)


@app.command()
@plain_errors
def report(
    folder: Annotated[Path, typer.Argument(help="Output folder of compare.")],
    table: Annotated[bool, typer.Option("--table", help="Print a Markdown table instead.")] = False,
) -> None:
    """Draw report.html again from the results in FOLDER."""
    from fourfold.reports import comparison_markdown, read_comparison, write_report

    if table:
        typer.echo(comparison_markdown(read_comparison(folder)))
    else:
        typer.echo(f"Report: {write_report(folder)}")


@app.command()
@plain_errors
def train(
    recipe: Annotated[Path, typer.Argument(help="YAML file; see recipes/.")],
    changes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[field=value …]", help="Like training.steps=100."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the run; by default runs/ and the recipe's name.")
    ] = None,
) -> None:
    """Train a language model by a recipe; the same command again goes on where it stopped.

    Alone, or in several processes: accelerate launch -m fourfold train RECIPE.yaml
    """
    from fourfold.cli.train import run_training
    from fourfold.training.recipe import read_recipe

    run_training(read_recipe(recipe, tuple(changes or ())), out or Path("runs") / recipe.stem)


@app.command()
@plain_errors
def generate(
    model: ModelFolder,
    prompt: Annotated[str, typer.Option(help="Text to read first.")] = "",
    session: SessionFile = None,
    max_new_tokens: Annotated[int, typer.Option(min=0)] = 64,
    temperature: Temperature = 0.0,
    seed: Annotated[int, typer.Option(help="Of what is drawn at a temperature above 0.")] = 0,
    tokens: Annotated[bool, typer.Option("--tokens", help="Print token numbers.")] = False,
) -> None:
    """Print a continuation, from a prompt, a session, or both; changes no file."""
    import torch

    from fourfold.cli.models import open_session

    opened = open_session(model, session)
    options: dict[str, Any] = {"max_new_tokens": max_new_tokens}
    if temperature:
        drawn = torch.Generator().manual_seed(seed)
        options |= {"do_sample": True, "temperature": temperature, "generator": drawn}
    if tokens:
        typer.echo(" ".join(map(str, opened.generate_tokens(prompt, **options))))
        return
    for piece in opened.stream(prompt, **options):
        typer.echo(piece, nl=False)
    typer.echo()


@app.command()
@plain_errors
def chat(
    model: ModelFolder,
    session: SessionFile = None,
    max_new_tokens: Annotated[int, typer.Option(min=1)] = 120,
    temperature: Temperature = 0.7,
) -> None:
    """Talk to a model; it remembers, also the next time if a session file is given."""
    from fourfold.cli.chat import run_chat

    run_chat(
        model=model,
        path=session,
        max_new_tokens=max_new_tokens,
        temperature=temperature,
    )


app.command()(evaluate)
app.command()(inspect)
app.command()(capacity)
app.command()(plan)
app.command()(plot_run)
app.command()(prove)
app.command("lm-eval")(lm_eval)

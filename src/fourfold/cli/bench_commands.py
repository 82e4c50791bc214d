"""The commands ``fourfold bench …``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from fourfold.cli.common import plain_errors

bench = typer.Typer(help="Time operators and training steps, side by side in one run.")

Rounds = Annotated[
    int | None, typer.Option(min=1, help="Turns of each that count; by default 7, or 2 if quick.")
]
Threads = Annotated[int | None, typer.Option(min=1, help="By default as many as torch takes.")]
Quick = Annotated[bool, typer.Option("--quick", help="Tiny sizes, to see that it runs.")]
BenchFolder = Annotated[Path, typer.Option(help="Folder for results and figure.")]


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
    run_ops_benchmark(options, output)


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
    run_step_benchmark(options, output)


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

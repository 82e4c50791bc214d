"""``fourfold plot-run``: the training traces of runs as a figure."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Annotated

import typer

from fourfold.cli.common import plain_errors, say

FORMATS = (".png", ".svg", ".pdf")


@plain_errors
def plot_run(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs, finished or not.")],
    out: Annotated[Path, typer.Option(help="The figure: .png, .svg or .pdf.")] = Path(
        "runs/trace.png"
    ),
) -> None:
    """Draw the loss of runs of fourfold train, and say where each stands."""
    from fourfold.files import write_atomically
    from fourfold.reports.trace import draw_trace, read_runs

    if out.suffix not in FORMATS:
        raise ValueError(f"--out must end with {', '.join(FORMATS)}; got {out}.")
    read = read_runs(runs)
    figure = draw_trace(read)
    out.parent.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    figure.savefig(buffer, format=out.suffix[1:], dpi=160)
    write_atomically(out, buffer.getvalue())
    say(*(run.summary() for run in read), f"Figure: {out}")

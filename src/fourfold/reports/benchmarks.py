"""The figure of ``fourfold bench ops``, drawn from its result file alone."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from fourfold.benchmarks.summary import microseconds_per_token
from fourfold.files import write_atomically
from fourfold.results import read_result

FIELDS = {"contestants", "device", "finished", "lengths", "machine", "options"}
"""What the figure is drawn from."""

MODE = "forward_backward"
COLOURS = ("#0b6e6e", "#3fa7a0", "#c4622d", "#e0a46c", "#5a5fb0", "#8a8a3a", "#a04a78", "#4a555c")
MARKERS = "osDv^<>P"


def read_benchmark(path: Path) -> dict[str, Any]:
    """The result of ``fourfold bench ops`` at ``path``.

    Raises:
        FileNotFoundError: there is none.
        ValueError: it is another result, or holds no times by length.
    """
    result = read_result(path)
    if result is None:
        raise FileNotFoundError(f"{path} does not exist; run fourfold bench ops first.")
    if missing := FIELDS - result.keys():
        raise ValueError(f"{path} is no result of fourfold bench ops: it lacks {min(missing)}.")
    if not result["lengths"]:
        raise ValueError(f"{path} holds no times by length: run it with lengths among the modes.")
    return result


def write_figure(path: Path) -> Path:
    """Draw the figure of the result at ``path`` beside it, as PNG.

    Returns:
        where it lies.
    """
    figure = draw_lengths(read_benchmark(path))
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=160)
    target = path.with_suffix(".png")
    write_atomically(target, buffer.getvalue())
    return target


def draw_lengths(result: dict[str, Any]) -> Figure:
    """Microseconds a token of forward and backward against T, a line for each contestant."""
    figure = Figure(figsize=(8.4, 5.4), layout="constrained")
    axes = figure.add_subplot()
    for index, contestant in enumerate(result["contestants"]):
        name = contestant["name"]
        points = [
            (entry["shape"]["tokens"], microseconds_per_token(entry, name, MODE))
            for entry in result["lengths"]
        ]
        drawn = [(tokens, time) for tokens, time in points if time is not None]
        if drawn:
            axes.plot(
                *zip(*drawn, strict=True),
                "-" if name.endswith("fused") else "--",
                color=COLOURS[index % len(COLOURS)],
                marker=MARKERS[index % len(MARKERS)],
                markersize=5,
                label=name,
            )
    _label(axes, result)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure


def _label(axes: Axes, result: dict[str, Any]) -> None:
    shape, options = result["lengths"][0]["shape"], result["options"]
    lengths = [entry["shape"]["tokens"] for entry in result["lengths"]]
    axes.set_title(
        f"{options['dtype']}, B = {shape['rows']}, H = {shape['heads']}, S = {shape['address']}, "
        f"D = {shape['columns']}; {result['device']}, {result['machine']['threads']} thread(s)",
        fontsize=9,
        loc="left",
    )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(lengths)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda tokens, _: f"{tokens:,.0f}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_minor_locator(LogLocator(subs=(2, 5)))
    for formatter in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
        formatter(FuncFormatter(lambda time, _: f"{time:g}"))
    axes.set_xlabel("sequence length T (tokens)")
    axes.set_ylabel("time of forward + backward (µs per token)")
    axes.grid(alpha=0.25, which="both")
    axes.spines[["top", "right"]].set_visible(False)

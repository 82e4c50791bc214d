"""Figure and tables of the benchmarks, drawn from their result files alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from fourfold.benchmarks.recurrences import ATPM_FUSED, GATED_DELTANET_FUSED, TRANSFORMERS
from fourfold.benchmarks.summary import microseconds_per_token, ratio, row
from fourfold.files import write_atomically
from fourfold.reports.style import png
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
    target = path.with_suffix(".png")
    write_atomically(target, png(figure, dpi=160))
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


def ops_markdown(result: dict[str, Any]) -> str:
    """One row a shape: times, and how many times as fast as transformers' Gated DeltaNet."""
    lines = [
        "| B, T, H, S, D | transformers' Gated DeltaNet, ms | ATPM fused, ms | times as fast "
        "| Gated DeltaNet fused, times as fast |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for entry in result["shapes"]:
        shape = ", ".join(f"{size:,}" for size in entry["shape"].values())
        cells = [_pair(entry, name, _milliseconds) for name in (TRANSFORMERS, ATPM_FUSED)]
        cells += [_pair(entry, name, _times_as_fast) for name in (ATPM_FUSED, GATED_DELTANET_FUSED)]
        lines.append(f"| {shape} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _pair(
    entry: dict[str, Any], name: str, show: Callable[[dict[str, Any], str, str], str | None]
) -> str:
    """Forward / forward and backward."""
    return " / ".join(show(entry, mode, name) or "–" for mode in ("forward", "forward_backward"))


def _milliseconds(entry: dict[str, Any], mode: str, name: str) -> str | None:
    timing = row(entry, name)[mode]
    return timing and f"{timing['median_ms']:,.1f}"


def _times_as_fast(entry: dict[str, Any], mode: str, name: str) -> str | None:
    found = ratio(entry, mode, name)
    return None if found is None else f"{1 / found:.1f}"


def step_markdown(result: dict[str, Any]) -> str:
    """One row a model: a training step of the baseline and of the present, and their ratio."""
    compared = result["versions_compared"]
    times = compared["models_median_ms"]
    lines = ["| model | before, ms | now, ms | ratio |", "| --- | ---: | ---: | ---: |"]
    for model, now in times["present"].items():
        before = times["baseline"][model]
        lines.append(f"| {model} | {before:.0f} | {now:.0f} | {before / now:.2f} |")
    sums = compared["sum_median_ms"]
    total = sums["baseline"], sums["present"], compared["ratio"]
    lines.append("| sum | {:.0f} | {:.0f} | {:.2f} |".format(*total))
    return "\n".join(lines)


def markdown(path: Path) -> str:
    """The table of the result at ``path``.

    Raises:
        FileNotFoundError: there is none.
        ValueError: it is no result of bench ops, nor one of bench step with a baseline.
    """
    result = read_result(path)
    if result is None:
        raise FileNotFoundError(f"{path} does not exist; run fourfold bench first.")
    if result.get("benchmark") == "ops":
        return ops_markdown(result)
    if result.get("versions_compared"):
        return step_markdown(result)
    raise ValueError(f"{path} is neither of bench ops nor of bench step with a baseline.")

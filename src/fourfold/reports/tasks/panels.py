"""What is drawn into one panel of a figure."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

from fourfold.grid.cell import TESTS
from fourfold.reports.tasks.curves import (
    Point,
    Progress,
    learning_lines,
    load_lines,
    part_counts,
    part_shares,
    split_lines,
    trained_loads,
)
from fourfold.reports.tasks.results import GridResults
from fourfold.reports.tasks.styles import line_styles
from fourfold.reports.tasks.wording import SPLITS
from fourfold.tasks import Split

KINDS: dict[str, dict[str, Any]] = {
    "current": {"facecolor": "#0b6e6e"},
    "stale": {"facecolor": "#c4622d", "hatch": "////"},
    "untouched": {"facecolor": "#8080c0"},
    "empty": {"facecolor": "#c9c4b4"},
    "told": {"facecolor": "#400040"},
    "known": {"facecolor": "#d8b0e0", "hatch": "...."},
}
"""Parts of answers, and how their bars look."""

LABEL_WIDTH = 38
"""Characters that fit below a panel of bars."""

SHADE = "#efece2"

NOTHING_YET = "nothing to show yet"
LEAST_LOSS = 1e-4
"""Smaller losses are drawn here."""


def draw_loads(axes: Axes, results: GridResults, task: str) -> None:
    """Exact match against the load; of a mixture, whose loads differ, against the split."""
    trained = trained_loads(results, task)
    if trained is None:
        _lines(axes, results, split_lines(results, task))
        axes.axvspan(-0.2, 0.2, color=SHADE, zorder=0, linewidth=0)
        axes.set_xlim(-0.3, len(TESTS) - 0.7)
        axes.set_xticks(range(len(TESTS)), [SPLITS[split] for split in TESTS])
        axes.set_xlabel("test split (mean over the tasks mixed)")
    else:
        lines = load_lines(results, task)
        _lines(axes, results, lines)
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda load, _: f"{load:g}"))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.axvspan(trained[0] / 1.08, trained[1] * 1.08, color=SHADE, zorder=0, linewidth=0)
        axes.set_xlabel(results.grid.built_tasks[task].load_is)
    _percent_axis(axes, "exact match, %")


def draw_learning(axes: Axes, results: GridResults, task: str, key: Progress) -> None:
    """Validation against the step, the range between the seeds behind each line."""
    lines = learning_lines(results, task, key)
    _lines(axes, results, lines, dense=True)
    axes.set_xlabel("step")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda step, _: f"{step:,.0f}"))
    axes.set_xlim(0, results.grid.training.steps)
    if key == "validation_accuracy":
        _percent_axis(axes, "tokens named right, %")
        return
    least = min((point.low for points in lines.values() for point in points), default=1.0)
    axes.set_yscale("log")
    axes.set_ylim(bottom=min(0.1, max(least / 1.3, LEAST_LOSS)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda loss, _: f"{loss:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylabel("nats a token")


def draw_parts(axes: Axes, results: GridResults, task: str, split: Split) -> None:
    """Bars of each model for what was current, stale, untouched and empty."""
    shares = part_shares(results, task, split)
    names = list(results.grid.models)
    kinds = kinds_of(results, task)
    height = 0.84 / max(1, len(kinds))
    for number, kind in enumerate(kinds):
        places = [place for place, name in enumerate(names) if name in shares]
        axes.barh(
            [place + (number - (len(kinds) - 1) / 2) * height for place in places],
            [100 * shares[names[place]].get(kind, 0.0) for place in places],
            height=height,
            edgecolor="white",
            linewidth=0.3,
            zorder=2,
            **KINDS[kind],
        )
    for place, name in enumerate(names):
        if name not in shares:
            _say(axes, place, NOTHING_YET)
    axes.set_yticks(range(len(names)), [literal(name) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlim(0, 100)
    counts = part_counts(results, task, split)
    asked = ", ".join(f"{counts.get(kind, 0):,}\N{NO-BREAK SPACE}{kind}" for kind in kinds)
    axes.set_xlabel(textwrap.fill(f"share, % of {asked}", LABEL_WIDTH))
    axes.grid(axis="x", alpha=0.25)
    axes.tick_params(axis="y", length=0)


def kinds_of(results: GridResults, task: str) -> list[str]:
    """The kinds of parts that a task asks for."""
    found = {
        kind
        for split in TESTS
        for shares in part_shares(results, task, split).values()
        for kind in shares
    }
    return [kind for kind in KINDS if kind in found]


def literal(text: str) -> str:
    """``text`` as matplotlib shows it letter by letter, without formulas."""
    return text.replace("$", r"\$")


def _lines(
    axes: Axes,
    results: GridResults,
    lines: Mapping[str, Sequence[Point]],
    *,
    dense: bool = False,
) -> None:
    """A line for each model, leaders over followers.

    Args:
        dense: few markers, and the range between the seeds.
    """
    for number, (name, style) in enumerate(line_styles(results.grid).items()):
        points = lines.get(name, ())
        x = [point.x for point in points]
        # Where lines lie on each other, markers at other places still tell them apart.
        sparse: dict[str, Any] = {"markevery": (0.03 + 0.035 * number, 0.35)} if dense else {}
        axes.plot(
            x,
            [point.mean for point in points],
            zorder=2 + style.width,
            **style.as_keywords(),
            **sparse,
        )
        low, high = [point.low for point in points], [point.high for point in points]
        if dense and low != high:
            axes.fill_between(x, low, high, color=style.colour, alpha=0.13, linewidth=0)
    if not any(lines.values()):
        _say(axes, 0.5, NOTHING_YET, transform=axes.transAxes, ha="center")
    axes.grid(alpha=0.25)


def _say(axes: Axes, y: float, text: str, **keywords: Any) -> None:
    axes.text(0.5, y, text, va="center", color="#5b666d", **keywords)


def _percent_axis(axes: Axes, label: str) -> None:
    axes.set_ylim(-0.03, 1.03)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100"])
    axes.set_ylabel(label)

"""The trace of a training run: its early fall, its slow end, and the end once more, enlarged.

The loss falls by nats in the first few per cent of a run and by hundredths afterwards. Two panels
share it, each with a scale of its own; nothing is cut out between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from fourfold.reports.trace.inset import enlarge_the_end
from fourfold.reports.trace.levels import Levels, find_levels
from fourfold.reports.trace.lines import COLOURS, FAINT_INK, INK, PAPER, Trace, draw, dress
from fourfold.reports.trace.runs import HISTORY, SHARE, Run

HEIGHTS = (1.0, 1.25)
"""Of the panels of the early fall and of the late part."""

UNITS = ((1e9, "billions"), (1e6, "millions"), (1e3, "thousands"))
LETTERS = 100
"""In a row of the legend, more or less."""


def draw_trace(runs: Sequence[Run]) -> Figure:
    """All runs in one figure; what has hardly begun, or never falls, is drawn in one panel."""
    traces = [
        Trace(run, run.smooth(), COLOURS[index % len(COLOURS)]) for index, run in enumerate(runs)
    ]
    levels = find_levels(traces)
    figure = Figure(figsize=(9.2, 5.9), facecolor=PAPER)
    rows = _explain(figure, traces, broken=levels.middle is not None)
    panels = _panels(figure, levels, top=0.872 - 0.042 * rows)
    for panel in panels:
        draw(panel, traces, sparse=len(panels) == 2 and panel is panels[0])
    _label_tokens(panels[-1], traces)
    if len(panels) == 2:
        _mark_break(*panels)
    enlarge_the_end(panels, traces)
    return figure


def _panels(figure: Figure, levels: Levels, top: float) -> list[Axes]:
    """The axes, from the top of the figure to its bottom."""
    place = dict(left=0.075, right=0.975, bottom=0.1, top=top)
    if levels.middle is None:
        grid = figure.add_gridspec(1, 1, **place)
        ends = [(levels.bottom, levels.top)]
    else:
        grid = figure.add_gridspec(2, 1, height_ratios=HEIGHTS, hspace=0.07, **place)
        ends = [(levels.middle, levels.top), (levels.bottom, levels.middle)]
    panels: list[Axes] = []
    for row, (low, high) in enumerate(ends):
        above = panels[0] if panels else None
        panel = figure.add_subplot(grid[row], sharex=above, facecolor="none")
        panel.set_ylim(low, high)
        panel.yaxis.set_major_locator(MaxNLocator(5, prune="both" if len(ends) == 2 else None))
        dress(panel, size=9.5)
        panels.append(panel)
    return panels


def _label_tokens(axes: Axes, traces: Sequence[Trace]) -> None:
    last = max(float(trace.run.training.tokens[-1]) for trace in traces)
    size, name = next(((size, name) for size, name in UNITS if last >= size), (1.0, ""))
    axes.set_xlim(0, 1.015 * last or 1.0)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda tokens, _: f"{tokens / size:g}"))
    unit = f" ({name})" if name else ""
    axes.set_xlabel(f"tokens read{unit}", color=FAINT_INK, fontsize=10)


def _mark_break(upper: Axes, lower: Axes) -> None:
    """A slanting stroke at either side of the gap, on the axis."""
    upper.spines["bottom"].set_visible(False)
    upper.tick_params(bottom=False, labelbottom=False)
    stroke: dict[str, Any] = dict(
        marker=[(-1, -0.55), (1, 0.55)],
        markersize=10,
        linestyle="none",
        color=FAINT_INK,
        markeredgewidth=1.1,
        clip_on=False,
    )
    upper.plot([0], [0], transform=upper.transAxes, **stroke)
    lower.plot([0], [1], transform=lower.transAxes, **stroke)


def _explain(figure: Figure, traces: Sequence[Trace], *, broken: bool) -> int:
    """Title, what the marks mean, and which colour is which run.

    Returns:
        rows of the legend.
    """
    figure.text(0.02, 0.955, "Training loss", color=INK, fontsize=14, weight="bold", va="center")
    said = [
        "nats a token",
        "pale: each step",
        f"full: mean of the last {SHARE:.0%} of all steps, "
        f"or of the last {HISTORY:.0%} so far if they are fewer",
    ]
    if any(len(trace.run.validation) for trace in traces):
        said.append("rings: validation")
    figure.text(0.02, 0.912, "; ".join(said), color=FAINT_INK, fontsize=9, va="center")
    if broken:
        said_of_break = "The scale changes at the break; nothing is cut out."
        figure.text(0.975, 0.018, said_of_break, color=FAINT_INK, fontsize=8, ha="right")
    labels = [f"{trace.run.name}  {trace.smooth[-1]:.3f}" for trace in traces]
    columns = max(1, min(len(labels), LETTERS // (max(map(len, labels)) + 5)))
    figure.legend(
        handles=[
            Line2D([], [], color=trace.colour, linewidth=2.2, label=label)
            for trace, label in zip(traces, labels, strict=True)
        ],
        loc="upper left",
        bbox_to_anchor=(0.012, 0.9),
        ncols=columns,
        frameon=False,
        fontsize=9.5,
        labelcolor="linecolor",
        handlelength=1.4,
        columnspacing=1.6,
    )
    return -(-len(labels) // columns)

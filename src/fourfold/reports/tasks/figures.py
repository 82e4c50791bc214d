"""The figures of a grid: panels side by side, for a page one by one and as PNG together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from fourfold.grid.cell import TESTS
from fourfold.reports.style import inline_svg, png
from fourfold.reports.tasks.curves import Progress
from fourfold.reports.tasks.panels import (
    KINDS,
    draw_learning,
    draw_loads,
    draw_parts,
    kinds_of,
    literal,
)
from fourfold.reports.tasks.results import GridResults
from fourfold.reports.tasks.styles import line_styles
from fourfold.reports.tasks.wording import SPLITS

COLUMNS = 3
WIDTH = 3.5
"""Of a panel, in inches: a page shows it at about this size, so that 9 points stay 9 points."""

PROGRESS: dict[str, Progress] = {"loss": "validation_loss", "accuracy": "validation_accuracy"}

LOOKS = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.fontsize": 9.5,
    "hatch.linewidth": 0.6,
}


@dataclass(frozen=True)
class Panel:
    """A part of a figure.

    Attributes:
        title: that stands above it.
        draw: draws it into axes.
    """

    title: str
    draw: Callable[[Axes], None]


@dataclass(frozen=True)
class Plate:
    """A figure of several panels and one legend.

    Attributes:
        name: of its file, without the ending.
        title: what it shows.
        panels: in the order of reading.
        legend: by name, what a legend shows.
        height: of a panel, in inches.
    """

    name: str
    title: str
    panels: tuple[Panel, ...]
    legend: dict[str, Any]
    height: float = 2.6


def plates(results: GridResults) -> list[Plate]:
    """All figures that the results have something for."""
    tasks, models = list(results.grid.tasks), _model_legend(results)
    with_parts = [task for task in tasks if kinds_of(results, task)]
    found = [
        Plate(
            "load",
            "Exact match against load",
            tuple(Panel(task, partial(draw_loads, results=results, task=task)) for task in tasks),
            models,
        ),
        Plate(
            "parts",
            "Parts of answers, by what they are about",
            tuple(
                Panel(
                    f"{task}, {SPLITS[split]}",
                    partial(draw_parts, results=results, task=task, split=split),
                )
                for task in with_parts
                for split in TESTS
            ),
            {
                kind: Patch(edgecolor="white", linewidth=0.3, **look)
                for kind, look in KINDS.items()
                if any(kind in kinds_of(results, task) for task in with_parts)
            },
            height=0.95 + 0.31 * len(results.grid.models),
        ),
        *(
            Plate(
                f"learning-{word}",
                f"Validation {word} against step",
                tuple(
                    Panel(task, partial(draw_learning, results=results, task=task, key=key))
                    for task in tasks
                ),
                models,
            )
            for word, key in PROGRESS.items()
        ),
    ]
    return [plate for plate in found if plate.panels]


def as_png(plate: Plate) -> bytes:
    """All panels of ``plate`` and its legend in one picture."""
    columns = min(COLUMNS, len(plate.panels))
    rows = -(-len(plate.panels) // columns)
    with rc_context(LOOKS):
        figure = Figure(figsize=(WIDTH * columns, plate.height * rows + 0.8), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False)
        for place, axes in enumerate(grid.flat):
            if place < len(plate.panels):
                _draw(axes, plate.panels[place])
            else:
                axes.set_axis_off()
        figure.legend(
            list(plate.legend.values()),
            [literal(name) for name in plate.legend],
            loc="outside lower center",
            ncols=min(len(plate.legend), 2 * columns - 1),
            frameon=False,
            handlelength=3.2,
        )
        return png(figure)


def as_svgs(plate: Plate) -> list[str]:
    """Each panel of ``plate`` as an element for a page."""
    elements = []
    for panel in plate.panels:
        with rc_context(LOOKS):
            figure = Figure(figsize=(WIDTH, plate.height), layout="constrained")
            _draw(figure.add_subplot(), panel)
            elements.append(inline_svg(figure, f"{plate.title}: {panel.title}"))
    return elements


def legend_svgs(plate: Plate) -> dict[str, str]:
    """By name, what ``plate``'s legend shows beside it, as an element for a page."""
    elements = {}
    for name, handle in plate.legend.items():
        figure = Figure(figsize=(0.5, 0.17))
        figure.legend(
            [handle],
            [""],
            loc="center",
            frameon=False,
            borderpad=0,
            borderaxespad=0,
            handletextpad=0,
            handlelength=3.4,
        )
        elements[name] = inline_svg(figure, f"as drawn: {name}")
    return elements


def _draw(axes: Axes, panel: Panel) -> None:
    axes.set_title(panel.title)
    panel.draw(axes)


def _model_legend(results: GridResults) -> dict[str, Any]:
    return {
        name: Line2D([], [], **style.as_keywords())
        for name, style in line_styles(results.grid).items()
    }

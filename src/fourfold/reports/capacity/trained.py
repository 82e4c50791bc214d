"""What a trained model recalls, beside an ideal memory of its size."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fourfold.reports.capacity.styles import ORANGE, TEAL, Row
from fourfold.reports.tasks.figures import LOOKS

KINDS = {"new": "further items", "again": "other items written again"}


def trained_figure(rows: Sequence[Row], task: str) -> Figure:
    """Exact match of a trained model against items."""
    with rc_context(LOOKS):
        figure = Figure(figsize=(4.6, 3.4), layout="constrained")
        axes = figure.subplots()
        _draw(axes, rows, "items")
        axes.set(title=task, xlabel="items", ylabel="exact match, %")
        axes.set_xscale("log", base=2)
        items = [row["items"] for row in rows]
        axes.set_xticks(items, [str(item) for item in items])
        axes.minorticks_off()
        _legend(figure, axes)
    return figure


def trained_interference_figure(rows: Sequence[Row], task: str) -> Figure:
    """Exact match of items that nothing names, against what was written after them."""
    kinds = [kind for kind in KINDS if any(row["kind"] == kind for row in rows)]
    with rc_context(LOOKS):
        figure = Figure(figsize=(3.8 * len(kinds), 3.2), layout="constrained")
        panels = figure.subplots(1, len(kinds), squeeze=False)[0]
        for kind, axes in zip(kinds, panels, strict=True):
            found = [row for row in rows if row["kind"] == kind]
            _draw(axes, found, "further")
            axes.set(
                title=f"{task}: {KINDS[kind]}",
                xlabel=f"writes after the {found[0]['stored']} items",
                ylabel="exact match of items not named, %",
            )
        _legend(figure, panels[0])
    return figure


def _draw(axes: Axes, rows: Sequence[Row], against: str) -> None:
    places = [row[against] for row in rows]
    axes.plot(places, _percent(rows, "exact_match"), color=TEAL, marker="o", label="trained model")
    low, high = zip(*(row["exact_match_interval"] for row in rows), strict=True)
    axes.fill_between(
        places, [100 * x for x in low], [100 * x for x in high], color=TEAL, alpha=0.15
    )
    if all("ideal" in row for row in rows):
        axes.errorbar(
            places,
            _percent(rows, "ideal"),
            yerr=_percent(rows, "ideal_se"),
            color=ORANGE,
            linestyle="--",
            label="one layer of its size, random addresses",
        )
    axes.set_ylim(-3, 103)


def _legend(figure: Figure, axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)


def _percent(rows: Sequence[Row], measure: str) -> list[float]:
    return [100 * row[measure] for row in rows]

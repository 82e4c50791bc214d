"""Items stored against what comes back, and against what others lose."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fourfold.reports.capacity.styles import (
    GREY,
    Row,
    different,
    draw_points,
    draw_theory,
    looks,
    of_items,
    operator_legend,
    operator_of,
)
from fourfold.reports.tasks.figures import LOOKS

WIDTH, HEIGHT = 2.75, 2.2
"""Of a panel, in inches."""


def items_figure(rows: Sequence[Row], measure: str) -> Figure:
    """Accuracy or error against items, a panel for each kind and size of addresses and each decay.

    Of several columns, heads and similarities the first are drawn; ``variations_figure`` has the
    others.
    """
    rows = base_rows(rows)
    operators = list(dict.fromkeys(map(operator_of, rows)))
    kinds = different(rows, "addresses")
    conditions = list(product(different(rows, "address_dim"), different(rows, "decay")))
    most = max(row[measure] for row in rows)
    with rc_context(LOOKS):
        figure = _figure(len(kinds), len(conditions))
        panels = figure.subplots(len(kinds), len(conditions), squeeze=False)
        for axes, (kind, size, decay), drawn in _filled(panels, rows, kinds, conditions, "decay"):
            for place, ((colour, marker), found) in enumerate(drawn):
                draw_theory(axes, found, measure, colour=colour, broad=place == 0)
                draw_points(axes, found, measure, colour=colour, marker=marker, place=place)
            of_items(axes, measure, most=most)
            axes.set_title(f"{kind}, S = {size}, α = {decay:g}", fontsize=9)
        theory = "exact" if measure == "error" else "an approximation"
        _legend(
            figure,
            [
                *operator_legend(operators),
                Line2D([], [], color=GREY, linewidth=1, label=f"lines: theory, {theory}"),
                Line2D([], [], color=GREY, linestyle=":", label="items = S"),
            ],
        )
    return figure


def neighbours_figure(rows: Sequence[Row]) -> Figure:
    """How well items that nothing names are recalled when others are written again."""
    operators = list(dict.fromkeys(map(operator_of, rows)))
    kinds = different(rows, "addresses")
    conditions = list(product(different(rows, "address_dim"), sorted(different(rows, "share"))))
    with rc_context(LOOKS):
        figure = _figure(len(kinds), len(conditions))
        panels = figure.subplots(len(kinds), len(conditions), squeeze=False, sharex=True)
        for axes, (kind, size, share), drawn in _filled(panels, rows, kinds, conditions, "share"):
            for place, ((colour, marker), found) in enumerate(drawn):
                draw_points(
                    axes, found, "lost", colour=colour, marker=marker, place=place, line="-"
                )
            axes.set_xscale("log", base=2)
            axes.set(xlabel="items", ylabel="recall lost by others", ylim=(-0.08, 1.03))
            axes.set_title(f"{kind}, S = {size}, {100 * share:.0f} % again", fontsize=9)
        _legend(
            figure,
            [
                *operator_legend(operators),
                Line2D([], [], color=GREY, linestyle=":", label="items = S"),
            ],
        )
    return figure


def base_rows(rows: Sequence[Row]) -> list[Row]:
    """Those with the first of columns and heads and, of similar addresses, the first similarity."""
    columns, heads = rows[0]["columns"], rows[0]["heads"]
    cosine = next((row["similarity"] for row in rows if row["similarity"] is not None), None)
    return [
        row
        for row in rows
        if (row["columns"], row["heads"]) == (columns, heads)
        and row["similarity"] in (None, cosine)
    ]


def _filled(
    panels: Any,
    rows: Sequence[Row],
    kinds: Sequence[str],
    conditions: Sequence[tuple[int, float]],
    field: str,
) -> Iterator[tuple[Axes, tuple[str, int, float], list[tuple[tuple[str, str], list[Row]]]]]:
    """Each panel, its kind and size of addresses and its ``field``, and the rows of each operator
    there with how they look."""
    operators = list(dict.fromkeys(map(operator_of, rows)))
    for kind, line in zip(kinds, panels, strict=True):
        for (size, value), axes in zip(conditions, line, strict=True):
            axes.axvline(size, color=GREY, linewidth=0.7, linestyle=":")
            here = [
                row
                for row in rows
                if (row["addresses"], row["address_dim"], row[field]) == (kind, size, value)
            ]
            drawn = [
                (look, [row for row in here if operator_of(row) == operator])
                for operator, look in looks(operators).items()
            ]
            yield axes, (kind, size, value), drawn


def _figure(lines: int, columns: int) -> Figure:
    return Figure(figsize=(WIDTH * columns, HEIGHT * lines + 0.5), layout="constrained")


def _legend(figure: Figure, handles: list[Line2D]) -> None:
    figure.legend(
        handles=handles, loc="outside lower center", ncols=min(len(handles), 3), frameon=False
    )

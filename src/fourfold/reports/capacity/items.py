"""Items stored against what comes back, and against what others lose."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from matplotlib import rc_context
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
        for kind, around in zip(kinds, panels, strict=True):
            for (size, decay), axes in zip(conditions, around, strict=True):
                axes.axvline(size, color=GREY, linewidth=0.7, linestyle=":")
                for place, (operator, (colour, marker)) in enumerate(looks(operators).items()):
                    found = [
                        row
                        for row in rows
                        if operator_of(row) == operator
                        and (row["addresses"], row["address_dim"], row["decay"])
                        == (kind, size, decay)
                    ]
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
        for kind, line in zip(kinds, panels, strict=True):
            for (size, share), axes in zip(conditions, line, strict=True):
                axes.axvline(size, color=GREY, linewidth=0.7, linestyle=":")
                for place, (operator, (colour, marker)) in enumerate(looks(operators).items()):
                    found = [
                        row
                        for row in rows
                        if operator_of(row) == operator
                        and (row["addresses"], row["address_dim"], row["share"])
                        == (kind, size, share)
                    ]
                    draw_points(
                        axes,
                        found,
                        "lost",
                        colour=colour,
                        marker=marker,
                        place=place,
                        line="-",
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


def _figure(lines: int, columns: int) -> Figure:
    return Figure(figsize=(WIDTH * columns, HEIGHT * lines + 0.5), layout="constrained")


def _legend(figure: Figure, handles: list[Line2D]) -> None:
    figure.legend(
        handles=handles, loc="outside lower center", ncols=min(len(handles), 3), frameon=False
    )

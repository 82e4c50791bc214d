"""What columns, heads and the similarity of addresses do, one at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fourfold.reports.capacity.items import base_rows
from fourfold.reports.capacity.styles import (
    GREY,
    Row,
    different,
    draw_points,
    draw_theory,
    name_of,
    of_items,
    operator_of,
)
from fourfold.reports.tasks.figures import LOOKS

COLOURS = ("#0b6e6e", "#c4622d", "#5b5bb0", "#a8323e", "#8d8a80")
MARKERS = ("o", "s", "^", "D", "v")


@dataclass(frozen=True)
class _Line:
    """A line of panels: what varies, under which addresses, and what is drawn."""

    field: str
    sign: str
    kind: str
    measure: str
    rows: list[Row]


def variations_figure(rows: Sequence[Row]) -> Figure | None:
    """Recall against items by D, by heads and by similarity, and the error by similarity; a panel
    for each operator. None where nothing of the three varies."""
    lines = _lines(rows)
    if not lines:
        return None
    operators = list(dict.fromkeys(map(operator_of, rows)))
    with rc_context(LOOKS):
        size = (2.75 * len(operators), 2.25 * len(lines) + 0.3)
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(len(lines), len(operators), squeeze=False)
        for line, around in zip(lines, panels, strict=True):
            values = sorted(different(line.rows, line.field))
            most = max(row[line.measure] for row in line.rows)
            for operator, axes in zip(operators, around, strict=True):
                mine = [row for row in line.rows if operator_of(row) == operator]
                for place, value in enumerate(values):
                    found = [row for row in mine if row[line.field] == value]
                    colour = COLOURS[place % len(COLOURS)]
                    draw_theory(axes, found, line.measure, colour=colour)
                    marker = MARKERS[place % len(MARKERS)]
                    draw_points(
                        axes, found, line.measure, colour=colour, marker=marker, place=place
                    )
                of_items(axes, line.measure, most=most)
                axes.axvline(line.rows[0]["address_dim"], color=GREY, linewidth=0.7, linestyle=":")
                axes.set_title(name_of(operator), fontsize=8.5)
            around[0].set_ylabel(f"{line.kind} addresses\n{around[0].get_ylabel()}")
            around[-1].legend(
                handles=[
                    Line2D(
                        [],
                        [],
                        color=COLOURS[place % len(COLOURS)],
                        marker=MARKERS[place % len(MARKERS)],
                        markersize=4,
                        linewidth=1,
                        label=f"{line.sign} = {value:g}",
                    )
                    for place, value in enumerate(values)
                ],
                loc="center left",
                bbox_to_anchor=(1.0, 0.5),
                frameon=False,
                fontsize=8,
                handlelength=1.2,
            )
        first = lines[0].rows[0]
        figure.supxlabel(
            f"S = {first['address_dim']}, α = {first['decay']:g}; points: measured, ± standard "
            "error; lines: theory, exact of the error and an approximation of recall",
            fontsize=9,
        )
    return figure


def _lines(rows: Sequence[Row]) -> list[_Line]:
    kinds = different(rows, "addresses")
    free = "random" if "random" in kinds else kinds[0]
    base = [
        row
        for row in base_rows(rows)
        if (row["address_dim"], row["decay"]) == (rows[0]["address_dim"], rows[0]["decay"])
    ]
    others = [row for row in rows if row not in base_rows(rows)]
    found = []
    for field, sign, kind, measure in (
        ("columns", "D", free, "accuracy"),
        ("heads", "H", free, "accuracy"),
        ("similarity", "cosine", "similar", "accuracy"),
        ("similarity", "cosine", "similar", "error"),
    ):
        before = [row for row in base if row["addresses"] == kind]
        varied = [
            row for row in others if row["addresses"] == kind and row[field] != before[0][field]
        ]
        if varied:
            found.append(_Line(field, sign, kind, measure, before + varied))
    return found

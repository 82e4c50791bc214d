"""How operators look in the figures of capacity, and what the figures share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

Row = dict[str, Any]

TEAL, ORANGE, PURPLE, RED, GREY = "#0b6e6e", "#c4622d", "#5b5bb0", "#a8323e", "#8d8a80"

LOOKS_OF: dict[str, tuple[str, str]] = {"delta": (TEAL, "o"), "linear": (ORANGE, "s")}
LOOKS_OF_TRANSPORTS = ((PURPLE, "^"), (RED, "D"), (GREY, "v"), ("#1d2429", "P"))
"""Colour and marker."""

ASIDE = 1.06
"""Factor between the abscissae of two operators, so that no point hides another."""


def operator_of(row: Row) -> tuple[Any, ...]:
    """What tells operators apart."""
    return row["rule"], row["rho"], row["proposal"]


def name_of(operator: tuple[Any, ...]) -> str:
    rule, rho, proposal = operator
    return rule if rho is None else f"{rule}, ρ = {rho:g}, ‖b‖ = {proposal:g}"


def looks(operators: Sequence[tuple[Any, ...]]) -> dict[tuple[Any, ...], tuple[str, str]]:
    """Colour and marker of each."""
    found, transports = {}, 0
    for operator in operators:
        if operator[0] in LOOKS_OF:
            found[operator] = LOOKS_OF[operator[0]]
        else:
            found[operator] = LOOKS_OF_TRANSPORTS[transports % len(LOOKS_OF_TRANSPORTS)]
            transports += 1
    return found


def operator_legend(operators: Sequence[tuple[Any, ...]]) -> list[Line2D]:
    return [
        Line2D([], [], color=colour, marker=marker, markersize=4, label=name_of(operator))
        for operator, (colour, marker) in looks(operators).items()
    ]


def draw_points(
    axes: Axes,
    rows: Sequence[Row],
    measure: str,
    *,
    colour: str,
    marker: str,
    place: int,
    line: str = "none",
) -> None:
    """What was measured against items, with standard errors."""
    axes.errorbar(
        [row["items"] * ASIDE ** (place - 1) for row in rows],
        [row[measure] for row in rows],
        yerr=[row[f"{measure}_se"] for row in rows],
        color=colour,
        marker=marker,
        markersize=3.2,
        markeredgewidth=0,
        linestyle=line,
        linewidth=0.9,
        elinewidth=0.9,
        alpha=0.9,
    )


def draw_theory(
    axes: Axes, rows: Sequence[Row], measure: str, *, colour: str, broad: bool = False
) -> None:
    """What theory expects; a broad line stays visible under another."""
    axes.plot(
        [row["items"] for row in rows],
        [row[f"expected_{measure}"] for row in rows],
        color=colour,
        linewidth=2.4 if broad else 1,
        alpha=0.4 if broad else 0.8,
    )


def of_items(axes: Axes, measure: str, *, most: float) -> None:
    """The axes of a measure against items."""
    axes.set_xscale("log", base=2)
    axes.set_xlabel("items")
    if measure == "error":
        axes.set_yscale("symlog", linthresh=0.1)
        axes.set(ylabel="‖y − e‖² / ‖e‖²", ylim=(-0.01, 1.5 * max(most, 0.1)))
        # Below the threshold the axis is linear and minor ticks would crowd.
        axes.set_yticks([tick for tick in (0, 0.05, 0.1, 1, 10, 100) if tick <= 1.5 * most])
        axes.yaxis.set_major_formatter("{x:g}")
    else:
        axes.set(ylabel="recalled", ylim=(-0.03, 1.03))


def different(rows: Iterable[Row], key: str) -> list[Any]:
    return list(dict.fromkeys(row[key] for row in rows))

"""Figures of a study of capacity."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fourfold.reports.tasks.figures import LOOKS

Row = dict[str, Any]
COLOURS = {"delta": "#0b6e6e", "linear": "#c4622d", "transported": "#5b5bb0"}


def items_figure(rows: Sequence[Row], measure: str) -> Figure:
    """Accuracy or error against items, a panel for each kind and size of addresses.

    Of several numbers of heads the first is drawn: a head's error is that of one alone.
    """
    rows = [row for row in rows if row["heads"] == rows[0]["heads"]]
    kinds = _different(rows, "addresses")
    sizes = _different(rows, "address_dim")
    decays = _different(rows, "decay")
    with rc_context(LOOKS):
        figure, panels = _panels(kinds, sizes)
        for kind, line in zip(kinds, panels, strict=True):
            for size, axes in zip(sizes, line, strict=True):
                for rule in _different(rows, "rule"):
                    for number, decay in enumerate(decays):
                        found = [
                            row
                            for row in rows
                            if (row["addresses"], row["address_dim"], row["rule"], row["decay"])
                            == (kind, size, rule, decay)
                        ]
                        _draw(axes, found, measure, rule, number, decay)
                if measure == "error":
                    axes.set(ylabel="‖y − e‖² / ‖e‖²", yscale="symlog", ylim=(-0.02, 20))
                    axes.set_yscale("symlog", linthresh=0.1)
                else:
                    axes.set(ylabel="recalled", ylim=(-0.03, 1.03))
        handles, labels = panels[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return figure


def _draw(
    axes: Axes, rows: Sequence[Row], measure: str, rule: str, number: int, decay: float
) -> None:
    if not rows:
        return
    dash = ("-", (0, (4, 2)), (0, (1, 1)), (0, (6, 1, 1, 1)))[number % 4]
    label = f"{rule}, α = {decay:g}"
    items = [row["items"] for row in rows]
    colour = COLOURS[rule]
    values = [row[measure] for row in rows]
    axes.plot(items, values, color=colour, linestyle=dash, label=label, marker="o", markersize=2.5)
    if measure == "error":
        known = [(row["items"], row["expected_error"]) for row in rows]
        known = [(x, y) for x, y in known if y is not None]
        if known:
            axes.plot(*zip(*known, strict=True), color="#1d2429", linewidth=3, alpha=0.22)


def neighbours_figure(rows: Sequence[Row]) -> Figure:
    """How well items that nothing names are recalled when others are written again."""
    sizes = _different(rows, "address_dim")
    kinds = _different(rows, "addresses")
    shares = _different(rows, "share")
    with rc_context(LOOKS):
        figure, panels = _panels(kinds, sizes)
        for kind, line in zip(kinds, panels, strict=True):
            for size, axes in zip(sizes, line, strict=True):
                for rule in _different(rows, "rule"):
                    for number, share in enumerate(shares):
                        found = [
                            row
                            for row in rows
                            if (row["addresses"], row["address_dim"], row["rule"], row["share"])
                            == (kind, size, rule, share)
                        ]
                        if not found:
                            continue
                        lost = [row["accuracy_before"] - row["accuracy_after"] for row in found]
                        axes.plot(
                            [row["items"] for row in found],
                            lost,
                            color=COLOURS[rule],
                            linestyle=("-", (0, (4, 2)), (0, (1, 1)))[number % 3],
                            label=f"{rule}, {100 * share:.0f} % written again",
                            marker="o",
                            markersize=2.5,
                        )
                axes.axvline(size, color="#b9b5a8", linewidth=0.8, linestyle=":")
                axes.set(
                    title=f"{kind}, S = {size}", xlabel="items", ylabel="recall lost by others"
                )
                axes.set_xscale("log", base=2)
                axes.set_ylim(-0.03, 0.75)
        handles, labels = panels[-1][-1].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    return figure


def streams_figure(rows: Sequence[Row]) -> Figure:
    """Norms of states along streams."""
    with rc_context(LOOKS):
        figure = Figure(figsize=(6.4, 3.6), layout="constrained")
        axes = figure.subplots()
        names = dict.fromkeys(_stream(row) for row in rows)
        for name in names:
            found = [row for row in rows if _stream(row) == name and math.isfinite(row["norm"])]
            axes.plot([row["token"] for row in found], [row["norm"] for row in found], label=name)
        axes.set(xlabel="tokens", ylabel="largest ‖E‖", yscale="log", xscale="log")
        axes.legend(frameon=False)
    return figure


def trained_figure(rows: Sequence[Row], task: str) -> Figure:
    """Exact match of a trained model against items."""
    with rc_context(LOOKS):
        figure = Figure(figsize=(4.6, 3.4), layout="constrained")
        axes = figure.subplots()
        items = [row["items"] for row in rows]
        axes.plot(items, [100 * row["exact_match"] for row in rows], color="#0b6e6e", marker="o")
        low, high = zip(*(row["exact_match_interval"] for row in rows), strict=True)
        axes.fill_between(
            items, [100 * x for x in low], [100 * x for x in high], color="#0b6e6e", alpha=0.15
        )
        axes.set(title=task, xlabel="items", ylabel="exact match, %", ylim=(-3, 103))
        axes.set_xscale("log", base=2)
        axes.set_xticks(items, [str(item) for item in items])
        axes.minorticks_off()
    return figure


def _panels(kinds: Sequence[str], sizes: Sequence[int]) -> tuple[Figure, Any]:
    """A panel for each kind and size of addresses; a dotted line stands at S items."""
    figure = Figure(figsize=(3.4 * len(sizes), 2.7 * len(kinds)), layout="constrained")
    panels = figure.subplots(len(kinds), len(sizes), squeeze=False)
    for kind, line in zip(kinds, panels, strict=True):
        for size, axes in zip(sizes, line, strict=True):
            axes.axvline(size, color="#b9b5a8", linewidth=0.8, linestyle=":")
            axes.set(title=f"{kind}, S = {size}", xlabel="items")
            axes.set_xscale("log", base=2)
    return figure, panels


def _stream(row: Row) -> str:
    parts = [row["stream"]]
    if "rho" in row:
        parts.append(f"ρ = {row['rho']:g}")
    if row.get("guarded"):
        parts.append("guarded, before each look")
    return ", ".join(parts)


def _different(rows: Iterable[Row], key: str) -> list[Any]:
    return list(dict.fromkeys(row[key] for row in rows))

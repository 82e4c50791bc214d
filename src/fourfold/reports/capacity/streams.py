"""Norms of states along streams, and what the guard does to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from fourfold.reports.capacity.styles import ORANGE, PURPLE, RED, TEAL, Row
from fourfold.reports.tasks.figures import LOOKS
from fourfold.sessions.session import STRIDE

WIDTH, HEIGHT = 3.6, 2.9
"""Of a panel, in inches."""


def streams_figure(rows: Sequence[Row]) -> Figure:
    """The largest norm so far of every stream, a panel for each kind; of guarded ones the norm
    before and after the guard acts; and the scale by which it multiplies.

    A stream that ends with a cross has overflowed.
    """
    kinds = list(dict.fromkeys(map(_kind, rows)))
    longest = max(row["token"] for row in rows)
    guarded = [row for row in rows if row["guarded"] and row["token"] % STRIDE == 0]
    count = len(kinds) + bool(guarded)
    columns = min(count, 2)
    lines = -(-count // columns)
    with rc_context(LOOKS):
        figure = Figure(figsize=(WIDTH * columns, HEIGHT * lines), layout="constrained")
        panels = figure.subplots(lines, columns, squeeze=False).flat
        for kind, axes in zip(kinds, panels, strict=False):
            mine = [row for row in rows if _kind(row) == kind]
            for stream in dict.fromkeys(map(_stream, mine)):
                found = [row for row in mine if _stream(row) == stream]
                if found[0]["guarded"]:
                    _draw_guarded(axes, [row for row in found if row["token"] % STRIDE == 0])
                else:
                    _draw_free(axes, found, longest)
            axes.set(xlabel="tokens", ylabel="‖E‖", xscale="log", yscale="log")
            axes.set_title(_title(kind))
            _legend_once(axes)
            if axes.get_ylim()[1] < 1e6:
                _leave_room(axes)
                # Numbers between the powers of ten.
                axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
                axes.yaxis.set_major_formatter("{x:g}")
                axes.yaxis.set_minor_formatter(NullFormatter())
        if guarded:
            axes = panels[len(kinds)]
            for kind in dict.fromkeys(map(_kind, guarded)):
                found = [row for row in guarded if _kind(row) == kind]
                times = f"{max(row['scaled'] for row in rows if _kind(row) == kind):,} times"
                label = f"{_title(kind)}: {times}"
                _line(axes, found, "scale", label=label, marker=".", linewidth=0.7)
            axes.set(xlabel="tokens", ylabel="scale", xscale="log", yscale="log")
            axes.set_title("what the guard multiplies by")
            _leave_room(axes)
            axes.legend(loc="upper right", frameon=False, fontsize=8)
        for axes in panels[count:]:
            axes.set_axis_off()
    return figure


def _draw_free(axes: Axes, rows: Sequence[Row], longest: int) -> None:
    moved = rows[0].get("rho", 1.0) != 0
    colour = PURPLE if moved else TEAL
    sign = f"ρ = {rows[0]['rho']:g}" if "rho" in rows[0] else "no guard"
    label = f"{sign}, largest so far"
    _line(axes, rows, "largest", label=label, color=colour, linewidth=1.1)
    if "expected" in rows[0]:
        _line(
            axes,
            rows,
            "expected",
            label=f"{sign}, root of E‖E‖²",
            color=colour,
            linestyle="--",
            linewidth=0.9,
        )
    last = rows[-1]
    if last["token"] < longest:
        axes.plot(last["token"], last["largest"], "x", color=colour, label="overflows after this")


def _draw_guarded(axes: Axes, rows: Sequence[Row]) -> None:
    _line(axes, rows, "norm", label="guarded: before it looks", color=RED, marker=".", lw=0.7)
    _line(axes, rows, "kept", label="guarded: after", color=ORANGE, marker=".", lw=0.7)


def _line(axes: Axes, rows: Sequence[Row], measure: str, **look: Any) -> None:
    axes.plot([row["token"] for row in rows], [row[measure] for row in rows], **look)


def _leave_room(axes: Axes) -> None:
    """For a legend above the lines."""
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * (high / low) ** 0.6)


def _legend_once(axes: Axes) -> None:
    """Several seeds have one entry."""
    handles, labels = axes.get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    axes.legend(list(once.values()), list(once), loc="upper right", frameon=False, fontsize=8)


def _kind(row: Row) -> tuple[Any, ...]:
    return row["stream"], row.get("address_dim")


def _title(kind: tuple[Any, ...]) -> str:
    stream, size = kind
    return stream if size is None else f"{stream}, S = {size}"


def _stream(row: Row) -> tuple[Any, ...]:
    return row.get("rho"), row.get("seed"), row["guarded"]

"""The end of a trace once more, enlarged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import ConnectionPatch, Rectangle
from matplotlib.ticker import MaxNLocator

from fourfold.reports.trace.lines import FAINT_INK, PAPER, Trace, draw, dress

ENLARGED = 0.4
"""Of the tokens, the last, which the inset shows."""

FEW = 10
"""Steps below which there is nothing to enlarge."""

WIDEST, NARROWEST = 0.62, 0.3
"""Of the panel's width."""


def enlarge_the_end(panels: Sequence[Axes], traces: Sequence[Trace]) -> None:
    """An inset high in the first panel, of what the last one shows at its end.

    It is left out where hardly anything or nothing but a straight line would be in it, and where a
    loss needs the place.
    """
    host, source = panels[0], panels[-1]
    floor = 0.16 if len(panels) == 2 else 0.5
    stop = source.get_xlim()[1]
    start = (1 - ENLARGED) * stop
    place, ends = _free_place(host, traces, floor), _ends(traces, start)
    if place is None or ends is None:
        return
    left, width = place
    inset = host.inset_axes((left, floor, width, 0.97 - floor), facecolor=PAPER, zorder=5)
    draw(inset, traces)
    inset.set_xlim(start, stop)
    inset.set_ylim(*np.clip(ends, *source.get_ylim()))
    dress(inset, size=8)
    inset.xaxis.set_major_formatter(source.xaxis.get_major_formatter())
    inset.xaxis.set_major_locator(MaxNLocator(5))
    inset.yaxis.set_major_locator(MaxNLocator(4))
    inset.spines[["top", "right"]].set_visible(True)
    inset.spines[:].set_color(FAINT_INK)
    _lead_to(inset, source)


def _ends(traces: Sequence[Trace], start: float) -> tuple[float, float] | None:
    """Losses between which the means lie from ``start`` on, and some room for the noise."""
    lows, highs, noises = [], [], []
    for trace in traces:
        steps = trace.run.training.tokens >= start
        if np.count_nonzero(steps) >= FEW:
            mean = trace.smooth[steps]
            lows.append(float(mean.min()))
            highs.append(float(mean.max()))
            noises.append(float(np.std(trace.run.training.loss[steps] - mean)))
    if not lows:
        return None
    low, high = min(lows), max(highs)
    room = max(0.15 * (high - low), 0.6 * min(noises))
    return (low - room, high + room) if room else None


def _free_place(host: Axes, traces: Sequence[Trace], floor: float) -> tuple[float, float] | None:
    """Left end and width of an inset above ``floor``, all as shares of the axes; None if losses
    stand in the way everywhere."""
    bottom, top = host.get_ylim()
    level = bottom + (floor - 0.1) * (top - bottom)  # its labels hang below it
    end = host.get_xlim()[1]
    taken = [0.0, 1.0]
    for trace in traces:
        for curve in (trace.run.training, trace.run.validation):
            taken += (curve.tokens[curve.loss > level] / end).tolist()
    edges = np.sort(np.array(taken))
    widest = int(np.argmax(np.diff(edges)))
    left, right = float(edges[widest]) + 0.08, float(edges[widest + 1]) - 0.005
    left = max(left, right - WIDEST)
    return (left, right - left) if right - left >= NARROWEST else None


def _lead_to(inset: Axes, source: Axes) -> None:
    """A frame around what the inset shows, and lines from its upper corners to the inset."""
    (start, stop), (low, high) = inset.get_xlim(), inset.get_ylim()
    thin: dict[str, Any] = dict(edgecolor=FAINT_INK, linewidth=0.8, alpha=0.6)
    source.add_patch(Rectangle((start, low), stop - start, high - low, fill=False, **thin))
    for corner, tokens in ((0, start), (1, stop)):
        line = ConnectionPatch(
            (corner, 0), (tokens, high), inset.transAxes, source.transData, **thin
        )
        source.add_artist(line).set_clip_on(False)

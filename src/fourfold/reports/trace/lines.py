"""A run as lines and rings, and how the axes look that hold them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from fourfold.reports.tasks.styles import FOLLOWERS, LEADERS
from fourfold.reports.trace.runs import Numbers, Run

PAPER, INK, FAINT_INK, RULE = "#fbfaf7", "#1d2429", "#4a555c", "#dcd9d0"
"""The colours of all pages; see ``reports.style``."""

COLOURS = LEADERS + FOLLOWERS

LATE = 0.1
"""Of a run's tokens, after which its early fall is over."""

MANY = 2000
"""Steps from which on their losses fill an area."""


@dataclass(frozen=True)
class Trace:
    """A run with what is drawn of it."""

    run: Run
    smooth: Numbers
    colour: str

    @property
    def late(self) -> Numbers:
        """Which steps come after the early fall."""
        tokens = self.run.training.tokens
        return tokens >= LATE * tokens[-1]


def draw(axes: Axes, traces: Sequence[Trace], *, sparse: bool = False) -> None:
    """First what each step was, then the means, so that no run hides another's.

    Args:
        sparse: whether few steps are seen here, which would be lost if they were drawn as pale as
            where they fill an area.
    """
    for trace in traces:
        training = trace.run.training
        axes.plot(
            training.tokens,
            training.loss,
            color=trace.colour,
            linewidth=0.5,
            alpha=0.5 if sparse else 0.3 if len(training) <= MANY else 0.15,
        )
    for trace in traces:
        training, validation = trace.run.training, trace.run.validation
        axes.plot(
            training.tokens,
            trace.smooth,
            color=trace.colour,
            linewidth=1.7,
            marker="." if len(training) == 1 else "",
            solid_capstyle="round",
        )
        axes.plot(
            validation.tokens,
            validation.loss,
            "o",
            markersize=4.6,
            markerfacecolor=PAPER,
            markeredgecolor=trace.colour,
            markeredgewidth=1.2,
        )


def dress(axes: Axes, *, size: float) -> None:
    """Thin rules, faint labels of ``size`` points."""
    axes.grid(color=RULE, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT_INK)
    axes.tick_params(colors=FAINT_INK, labelsize=size, length=3)

"""At which losses the panels of a trace begin and end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fourfold.reports.trace.lines import Trace

STEEPER = 1.5
"""How many times as high as the late part the early fall must be to have a panel of its own."""


@dataclass(frozen=True)
class Levels:
    """Ends of the panels; ``middle`` is None where one panel does for all."""

    bottom: float
    middle: float | None
    top: float


def find_levels(traces: Sequence[Trace]) -> Levels:
    """Ends within which all means and all validations lie, and all but a few single low steps."""
    means = [trace.smooth for trace in traces]
    means += [trace.run.validation.loss for trace in traces if len(trace.run.validation)]
    steps = [trace.run.training.loss for trace in traces]
    usual = [np.quantile(trace.run.training.loss[trace.late], (0.005, 0.995)) for trace in traces]
    bottom = min(float(x.min()) for x in (*means, *usual))
    top = max(float(x.max()) for x in (*means, *steps))
    late = [trace.smooth[trace.late] for trace in traces]
    middle = max(float(x.max()) for x in (*late, *usual))
    margin = 0.06 * (middle - bottom)
    if top - middle - margin > STEEPER * (middle - bottom + 2 * margin) > 0:
        return Levels(bottom - margin, middle + margin, top + 0.04 * (top - middle))
    margin = 0.04 * (top - bottom) or 0.1 * max(abs(top), 1.0)
    return Levels(bottom - margin, None, top + margin)

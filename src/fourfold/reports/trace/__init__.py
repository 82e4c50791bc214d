"""The trace of a training run as a figure."""

from fourfold.reports.trace.figure import draw_trace
from fourfold.reports.trace.runs import Run, read_runs

__all__ = ["Run", "draw_trace", "read_runs"]

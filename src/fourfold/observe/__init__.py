"""The microscope: what memories do, token by token, and what for."""

from fourfold.observe.intervening import intervene
from fourfold.observe.quantities import QUANTITIES
from fourfold.observe.trace import Summary, Trace
from fourfold.observe.watching import observe

__all__ = ["QUANTITIES", "Summary", "Trace", "intervene", "observe"]

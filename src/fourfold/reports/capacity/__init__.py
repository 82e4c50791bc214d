"""Figures of studies of capacity."""

from fourfold.reports.capacity.items import items_figure, neighbours_figure
from fourfold.reports.capacity.streams import streams_figure
from fourfold.reports.capacity.trained import trained_figure, trained_interference_figure
from fourfold.reports.capacity.variations import variations_figure

__all__ = [
    "items_figure",
    "neighbours_figure",
    "streams_figure",
    "trained_figure",
    "trained_interference_figure",
    "variations_figure",
]

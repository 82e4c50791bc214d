"""How each model is drawn, the same in every figure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fourfold.grid import Grid

# Found by search: apart from each other to eyes of any kind, and dark enough for thin lines.
LEADERS = ("#0b6e6e", "#c4622d", "#8080c0", "#400040", "#a89c00", "#d0206a")
FOLLOWERS = ("#a040e0", "#600000", "#2000e0", "#606040", "#400080")
MARKERS = "osD^vP"
FOLLOWER_MARKERS = "vPX<>"
DASHES: tuple[Any, ...] = ((0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)), (0, (9, 3)))


@dataclass(frozen=True)
class LineStyle:
    """A model's line.

    Attributes:
        colour, marker, dash: as matplotlib knows them.
        width: of the line, in points.
    """

    colour: str
    marker: str
    dash: Any
    width: float

    def as_keywords(self) -> dict[str, Any]:
        """For matplotlib's lines."""
        return {
            "color": self.colour,
            "linestyle": self.dash,
            "linewidth": self.width,
            "marker": self.marker,
            "markersize": 3.0 + self.width,
        }


def line_styles(grid: Grid) -> dict[str, LineStyle]:
    """Full lines for models that search their own rate, thin dashed ones for those that follow."""
    styles = {}
    leaders = followers = 0
    for name, entry in grid.models.items():
        if entry.rate_of is None:
            colour, marker = LEADERS[leaders % len(LEADERS)], MARKERS[leaders % len(MARKERS)]
            # A seventh leader has the first one's colour and marker, on another line.
            dash = "-" if leaders < len(LEADERS) else DASHES[leaders % len(DASHES)]
            styles[name] = LineStyle(colour, marker, dash, 1.8)
            leaders += 1
        else:
            styles[name] = LineStyle(
                FOLLOWERS[followers % len(FOLLOWERS)],
                FOLLOWER_MARKERS[followers % len(FOLLOWER_MARKERS)],
                DASHES[followers % len(DASHES)],
                1.0,
            )
            followers += 1
    return styles

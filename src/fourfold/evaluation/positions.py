"""Loss by how much had been read before."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class PositionLoss:
    """Of the tokens that a memory had read ``start`` to before ``stop`` tokens ahead of."""

    start: int
    stop: int
    tokens: int
    nats: float
    """A token."""


class PositionTotals:
    """Sums of losses, in steps of powers of two."""

    def __init__(self) -> None:
        self._totals = torch.zeros(64, 2, dtype=torch.float64)

    def add(self, positions: Tensor, losses: Tensor) -> None:
        """Losses in nats, each with the tokens read before; both (M,), on the CPU."""
        bins = torch.where(
            positions > 0, positions.clamp(min=1).double().log2().floor().long() + 1, 0
        )
        each = torch.stack([losses.double(), torch.ones(len(bins), dtype=torch.float64)], -1)
        self._totals.index_add_(0, bins, each)

    @property
    def nats(self) -> float:
        """Of all tokens together."""
        return float(self._totals[:, 0].sum())

    @property
    def tokens(self) -> int:
        """How many there were."""
        return int(self._totals[:, 1].sum())

    def parts(self) -> list[PositionLoss]:
        """0, 1, 2 and 3, 4 to 7 and so on, as far as there were any."""
        return [
            PositionLoss(
                start=0 if number == 0 else 2 ** (number - 1),
                stop=2**number,
                tokens=int(count),
                nats=nats / count,
            )
            for number, (nats, count) in enumerate(self._totals.tolist())
            if count
        ]

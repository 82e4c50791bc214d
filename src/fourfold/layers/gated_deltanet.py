"""Gated DeltaNet."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn
from typing_extensions import Unpack

from fourfold.layers.decay import DECAY_TIMES, Decay
from fourfold.layers.delta_family import KeyValueLayer, KeyValueSizes


class GatedDeltaNet(KeyValueLayer):
    """The gated delta rule with unit keys and queries, one strength β and a decay α.

        E = α E₋₁ + k (β (v − (α E₋₁)ᵀ k))ᵀ        y = Eᵀ q / √S

    Args:
        decay_init, decay_times: see ``Decay``.
        sizes: see ``KeyValueSizes``.

    Source: arXiv 2412.06464.
    """

    def __init__(
        self,
        *,
        decay_init: str = "published",
        decay_times: Sequence[float] = DECAY_TIMES,
        **sizes: Unpack[KeyValueSizes],
    ) -> None:
        super().__init__(**sizes)
        self.decay = Decay(self.hidden_size, self.num_heads, decay_init, decay_times)
        self.beta_proj = nn.Linear(self.hidden_size, self.num_heads, bias=False)
        self.reset_parameters()

    def coordinates(self, x: Tensor, streams: dict[str, Tensor]) -> dict[str, Tensor]:
        beta = self.beta_proj(x).sigmoid()
        return self.revision(streams, log_alpha=self.decay(x)[0], beta=beta)

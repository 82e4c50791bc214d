"""DeltaNet."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from typing_extensions import Unpack

from fourfold.layers.delta_family import KeyValueLayer, KeyValueSizes


class DeltaNet(KeyValueLayer):
    """The delta rule with unit keys and queries: nothing decays, only writing erases.

        E = E₋₁ + k (β (v − E₋₁ᵀ k))ᵀ        y = Eᵀ q / √S

    Args:
        sizes: see ``KeyValueSizes``.

    Source: arXiv 2406.06484; its output is normalised but not gated.
    """

    def __init__(self, **sizes: Unpack[KeyValueSizes]) -> None:
        super().__init__(**sizes, gate=None)
        self.beta_proj = nn.Linear(self.hidden_size, self.num_heads, bias=False)
        self.reset_parameters()

    def coordinates(self, x: Tensor, streams: dict[str, Tensor]) -> dict[str, Tensor]:
        beta = self.beta_proj(x).sigmoid()
        return self.revision(streams, log_alpha=torch.zeros_like(beta), beta=beta)

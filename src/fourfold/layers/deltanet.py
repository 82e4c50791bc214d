"""DeltaNet."""

from __future__ import annotations

from torch import Tensor, nn
from typing_extensions import Unpack

from fourfold.layers.delta_family import KeyValueLayer, KeyValueSizes, unit


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
        k = unit(streams["k"])
        beta = self.beta_proj(x).sigmoid()
        return {
            "q": unit(streams["q"]) * self.address_dim**-0.5,
            "s": k,
            "d": k,
            "e": streams["v"],
            "log_alpha": beta.new_zeros(beta.shape),
            "erase": beta,
            "write": beta,
        }

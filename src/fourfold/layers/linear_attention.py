"""Linear attention with a scalar decay."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from fourfold.layers.decay import Decay
from fourfold.layers.delta_family import DeltaFamilyLayer


class LinearAttention(DeltaFamilyLayer):
    """The scalar recurrence of Mamba-2: it adds, it fades, it never corrects.

        E = α E₋₁ + k (Δ v)ᵀ        y = Eᵀ q        α = exp(−A Δ)

    k, v and q are Mamba-2's B, x and C, one of each a head; Δ is both the time that passes and the
    strength of the write. Its direct path D x is left out: the residual stream holds one.

    Args:
        hidden_size: size of x.
        num_heads: H.
        head_dim: S, size of keys and queries.
        value_dim: D, size of values.
        conv_size: width of the short convolution; 0 for none.
        decay_init: see ``Decay``.
        norm_eps: epsilon of the output norm.
        chunk_size: of the operator's chunked form.

    Source: arXiv 2405.21060.
    """

    def __init__(
        self,
        *,
        hidden_size: int,
        num_heads: int,
        head_dim: int,
        value_dim: int,
        conv_size: int = 4,
        decay_init: str = "published",
        norm_eps: float = 1e-6,
        chunk_size: int = 64,
    ) -> None:
        super().__init__(
            hidden_size=hidden_size,
            num_heads=num_heads,
            streams={"q": head_dim, "k": head_dim, "v": value_dim},
            address_dim=head_dim,
            columns=value_dim,
            conv_size=conv_size,
            norm_eps=norm_eps,
            gate=F.silu,
            chunk_size=chunk_size,
        )
        self.decay = Decay(hidden_size, num_heads, decay_init)
        self.reset_parameters()

    def coordinates(self, x: Tensor, streams: dict[str, Tensor]) -> dict[str, Tensor]:
        log_alpha, step = self.decay(x)
        return {
            "q": streams["q"],
            "s": streams["k"],
            "d": streams["k"],
            "e": streams["v"],
            "log_alpha": log_alpha,
            "erase": torch.zeros_like(step),
            "write": step,
        }

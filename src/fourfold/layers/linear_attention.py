"""Linear attention with a scalar decay."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from typing_extensions import Unpack

from fourfold.layers.decay import DECAY_TIMES, Decay
from fourfold.layers.delta_family import KeyValueLayer, KeyValueSizes


class LinearAttention(KeyValueLayer):
    """The scalar recurrence of Mamba-2: it adds, it fades, it never corrects.

        E = α E₋₁ + k (Δ v)ᵀ        y = Eᵀ q        α = exp(−A Δ)

    k, v and q are Mamba-2's B, x and C, one of each a head; Δ is both the time that passes and the
    strength of the write. Its direct path D x is left out: the residual stream holds one.

    Args:
        decay_init, decay_times: see ``Decay``.
        sizes: see ``KeyValueSizes``.

    Source: arXiv 2405.21060.
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

"""Comba."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from typing_extensions import Unpack

from fourfold.layers.decay import DECAY_TIMES, Decay
from fourfold.layers.delta_family import KeyValueLayer, KeyValueSizes, unit

LARGEST_INVERSE_DECAY = 30.0


class Comba(KeyValueLayer):
    """A delta rule in closed loop: weaker feedback from the state, and a corrected query.

        E = α E₋₁ + k (β (v − E₋₁ᵀ (f k)))ᵀ        y = Eᵀ (q − c k) / √S

    f = sigmoid(feedback) in (0, 1) and c are learned for each head. The feedback reads the state
    before it decays, which the shared rule reaches with an erase strength of β/α; α is taken as
    e⁻³⁰ at least there, where a state is as good as gone.

    Args:
        correction: c at the start.
        decay_init, decay_times: see ``Decay``.
        sizes: see ``KeyValueSizes``.

    Source: arXiv 2506.02475.
    """

    def __init__(
        self,
        *,
        correction: float = 0.02,
        decay_init: str = "published",
        decay_times: Sequence[float] = DECAY_TIMES,
        **sizes: Unpack[KeyValueSizes],
    ) -> None:
        super().__init__(**sizes, gate=torch.sigmoid)
        self.decay = Decay(self.hidden_size, self.num_heads, decay_init, decay_times)
        self.beta_proj = nn.Linear(self.hidden_size, self.num_heads, bias=False)
        self.feedback = nn.Parameter(torch.empty(self.num_heads))
        self.correction = nn.Parameter(torch.empty(self.num_heads))
        self.first_correction = correction
        self.reset_parameters()

    def initial_values(self, std: float) -> Iterator[tuple[Tensor, Tensor]]:
        yield self.feedback, torch.ones_like(self.feedback)
        yield self.correction, torch.full_like(self.correction, self.first_correction)

    def coordinates(self, x: Tensor, streams: dict[str, Tensor]) -> dict[str, Tensor]:
        k = unit(streams["k"])
        log_alpha, _ = self.decay(x)
        beta = self.beta_proj(x).sigmoid()
        q = unit(streams["q"]) - self.correction[:, None] * k
        return {
            "q": q * self.address_dim**-0.5,
            "s": self.feedback.sigmoid()[:, None] * k,
            "d": k,
            "e": streams["v"],
            "log_alpha": log_alpha,
            "erase": beta * (-log_alpha).clamp_max(LARGEST_INVERSE_DECAY).exp(),
            "write": beta,
        }

"""Comba."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from fourfold.layers.decay import Decay
from fourfold.layers.delta_family import DeltaFamilyLayer, unit

LARGEST_INVERSE_DECAY = 30.0


class Comba(DeltaFamilyLayer):
    """A delta rule in closed loop: weaker feedback from the state, and a corrected query.

        E = α E₋₁ + k (β (v − E₋₁ᵀ (f k)))ᵀ        y = Eᵀ (q − c k) / √S

    f = sigmoid(feedback) in (0, 1) and c are learned for each head. The feedback reads the state
    before it decays, which the shared rule reaches with an erase strength of β/α; α is taken as
    e⁻³⁰ at least there, where a state is as good as gone.

    Args:
        hidden_size: size of x.
        num_heads: H.
        head_dim: S, size of keys and queries.
        value_dim: D, size of values.
        conv_size: width of the short convolution; 0 for none.
        correction: c at the start.
        decay_init: see ``Decay``.
        norm_eps: epsilon of the output norm.
        chunk_size: of the operator's chunked form.

    Source: arXiv 2506.02475.
    """

    def __init__(
        self,
        *,
        hidden_size: int,
        num_heads: int,
        head_dim: int,
        value_dim: int,
        conv_size: int = 4,
        correction: float = 0.02,
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
            gate=torch.sigmoid,
            chunk_size=chunk_size,
        )
        self.decay = Decay(hidden_size, num_heads, decay_init)
        self.beta_proj = nn.Linear(hidden_size, num_heads, bias=False)
        self.feedback = nn.Parameter(torch.empty(num_heads))
        self.correction = nn.Parameter(torch.empty(num_heads))
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

"""The retention gate of the decaying layers, per token and head."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from fourfold.layers.base import Initialised

DECAY_INITS = ("published", "log_spaced")
DECAY_TIMES = (4.0, 4096.0)
"""From a few tokens to beyond a context of usual length."""


def check_decay_times(times: Sequence[float]) -> None:
    """Refuse what is no range of times.

    Raises:
        ValueError: a sentence.
    """
    if len(times) != 2 or not 0 < times[0] <= times[1]:
        raise ValueError(
            f"decay_times must be a shortest and a longest time in tokens; got {times!r}."
        )


class Decay(Initialised):
    """log α = −exp(A_log) Δ with Δ = softplus(W x + dt_bias), as in Mamba-2 and Gated DeltaNet.

    Args:
        hidden_size: size of x.
        num_heads: H.
        init: "published" draws exp(A_log) from U(0, 16) and Δ log-uniformly from [0.001, 0.1].
            With few heads that is a lottery; "log_spaced" has the heads forget, at first, over
            times spaced evenly on a logarithmic scale.
        times: the shortest and the longest of them, in tokens.

    Source: arXiv 2405.21060 and 2412.06464.
    """

    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        init: str = "published",
        times: Sequence[float] = DECAY_TIMES,
    ) -> None:
        super().__init__()
        if init not in DECAY_INITS:
            raise ValueError(f"decay_init must be one of {', '.join(DECAY_INITS)}; got {init!r}.")
        check_decay_times(times)
        self.init, self.times = init, times
        self.proj = nn.Linear(hidden_size, num_heads, bias=False)
        self.A_log = nn.Parameter(torch.empty(num_heads))
        self.dt_bias = nn.Parameter(torch.empty(num_heads))

    def initial_values(self, std: float) -> Iterator[tuple[Tensor, Tensor]]:
        heads = self.A_log.shape[0]
        if self.init == "published":
            a = torch.empty(heads).uniform_(0, 16).clamp_min(1e-4)
            step = torch.exp(torch.empty(heads).uniform_(-6.907755, -2.302585)).clamp_min(1e-4)
        else:
            a = torch.ones(heads)
            shortest, longest = map(math.log, self.times)
            step = torch.exp(-torch.linspace(shortest, longest, heads))
        yield self.A_log, a.log()
        yield self.dt_bias, step + torch.log(-torch.expm1(-step))  # the inverse of softplus

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(B, T, hidden_size) -> log α ≤ 0 and Δ > 0, both (B, T, H), float32 at least."""
        precise = torch.promote_types(x.dtype, torch.float32)
        raw = self.proj(x).to(precise) + self.dt_bias.to(precise)
        # The softplus, but not torch's own: its backward keeps the strides of its gradient, which
        # torch.compile with the aot_eager backend does not expect.
        step = torch.logaddexp(raw, torch.zeros_like(raw))
        return -self.A_log.to(precise).exp() * step, step

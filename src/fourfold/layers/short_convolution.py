"""A causal depthwise convolution over the last few tokens, and the activation behind it."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fourfold.layers.base import Initialised
from fourfold.ops.kernels import plain_on_cpu
from fourfold.ops.pointwise import in_one_pass


class ShortConvolution(Initialised):
    """silu(Σ_j w_j ⊙ x_{t−width+1+j}), one filter a channel, no bias.

    On a CPU a kernel of our own does all of it in one pass; elsewhere it is written as ``width``
    shifted products, which need no transposition.
    """

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        if width < 1:
            raise ValueError(f"width must be at least 1; got {width}.")
        self.weight = nn.Parameter(torch.empty(width, channels))

    def initial_values(self, std: float) -> Iterator[tuple[Tensor, Tensor]]:
        # As torch starts a convolution: std would all but silence the four taps.
        bound = self.weight.shape[0] ** -0.5
        yield self.weight, torch.empty_like(self.weight).uniform_(-bound, bound)

    def forward(
        self, x: Tensor, state: Tensor | None = None, cu_seqlens: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Convolve (B, T, channels), going on from ``state`` (N, width − 1, channels).

        Returns:
            silu(y) (B, T, channels) and the last width − 1 inputs of each sequence.
        """
        inputs = (x, self.weight, state, cu_seqlens)
        if plain_on_cpu(x, self.weight, state):
            y = in_one_pass("convolution", _convolve, inputs)
        else:
            y = _convolve(*inputs)
        return y, self._last_inputs(x, state, cu_seqlens)

    def _last_inputs(self, x: Tensor, state: Tensor | None, cu_seqlens: Tensor | None) -> Tensor:
        history = self.weight.shape[0] - 1
        tokens = x.shape[1]
        if cu_seqlens is None and tokens >= history:
            # A copy: a view would keep the whole input alive for as long as the state.
            return x[:, tokens - history :].clone()
        if state is None:
            state = x.new_zeros(_sequences(x, cu_seqlens), history, x.shape[-1])
        if cu_seqlens is None:
            return torch.cat([state, x], 1)[:, tokens:].clone()
        lengths = cu_seqlens.diff()[:, None]
        place = lengths - history + torch.arange(history, device=x.device)
        in_x = (cu_seqlens[:-1, None] + place).clamp_min(0)
        in_state = (place + history).clamp_max(history - 1)
        rows = torch.arange(len(state), device=x.device)[:, None]
        if tokens == 0:
            return state.clone()
        return torch.where((place >= 0)[..., None], x[0, in_x], state[rows, in_state])


def _convolve(x: Tensor, weight: Tensor, state: Tensor | None, cu_seqlens: Tensor | None) -> Tensor:
    history = weight.shape[0] - 1
    if state is None:
        state = x.new_zeros(_sequences(x, cu_seqlens), history, x.shape[-1])
    if cu_seqlens is None:
        return F.silu(_filter(torch.cat([state, x], 1), weight))

    # Put each sequence's history in front of it, so that no filter reaches into its neighbour.
    sequences = len(state)
    own_history = history * torch.arange(sequences, device=x.device)
    starts = cu_seqlens[:-1] + own_history
    taps = torch.arange(history, device=x.device)
    tokens = torch.arange(x.shape[1], device=x.device)
    tokens = tokens + torch.repeat_interleave(own_history, cu_seqlens.diff())
    extended = x.new_empty(1, x.shape[1] + history * sequences, x.shape[-1])
    extended = extended.index_copy(1, (starts[:, None] + taps).flatten(), state.flatten(0, 1)[None])
    extended = extended.index_copy(1, tokens + history, x)
    return F.silu(_filter(extended, weight).index_select(1, tokens))


def _filter(extended: Tensor, weight: Tensor) -> Tensor:
    """(B, history + T, channels) -> (B, T, channels)."""
    width = weight.shape[0]
    length = extended.shape[1] - width + 1
    y = extended[:, :length] * weight[0]
    for j in range(1, width):
        y = torch.addcmul(y, extended[:, j : j + length], weight[j])
    return y


def _sequences(x: Tensor, cu_seqlens: Tensor | None) -> int:
    return x.shape[0] if cu_seqlens is None else cu_seqlens.shape[0] - 1

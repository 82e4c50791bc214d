"""A causal depthwise convolution over the last few tokens."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from fourfold.layers.base import Initialised


class ShortConvolution(Initialised):
    """y_t = Σ_j w_j ⊙ x_{t−width+1+j}, one filter a channel, no bias.

    Written as ``width`` shifted products: for filters this short that is faster on a CPU than a
    grouped convolution, and it needs no transposition.
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
            y (B, T, channels) and the last width − 1 inputs of each sequence.
        """
        history = self.weight.shape[0] - 1
        sequences = x.shape[0] if cu_seqlens is None else cu_seqlens.numel() - 1
        if state is None:
            state = x.new_zeros(sequences, history, x.shape[-1])
        if cu_seqlens is None:
            extended = torch.cat([state, x], 1)
            # A copy: a view would keep the whole input alive for as long as the state.
            return self._convolve(extended), extended[:, extended.shape[1] - history :].clone()

        # Put each sequence's history in front of it, so that no filter reaches into its neighbour.
        lengths = cu_seqlens.diff()
        own_history = history * torch.arange(sequences, device=x.device)
        starts = cu_seqlens[:-1] + own_history
        taps = torch.arange(history, device=x.device)
        tokens = torch.arange(x.shape[1], device=x.device)
        tokens = tokens + torch.repeat_interleave(own_history, lengths)
        extended = x.new_empty(1, x.shape[1] + history * sequences, x.shape[-1])
        extended = extended.index_copy(
            1, (starts[:, None] + taps).flatten(), state.flatten(0, 1)[None]
        )
        extended = extended.index_copy(1, tokens + history, x)
        last = (starts + lengths)[:, None] + taps
        return self._convolve(extended).index_select(1, tokens), extended[0, last]

    def _convolve(self, extended: Tensor) -> Tensor:
        """(B, history + T, channels) -> (B, T, channels)."""
        width = self.weight.shape[0]
        length = extended.shape[1] - width + 1
        y = extended[:, :length] * self.weight[0]
        for j in range(1, width):
            y = torch.addcmul(y, extended[:, j : j + length], self.weight[j])
        return y

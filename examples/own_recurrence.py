"""A memory whose recurrence is none of the library's: a fading mean of what was read.

m_t = a_t m₋₁ + (1 − a_t) v_t        y_t = W_out m_t

fourfold --memory examples/own_recurrence.py prove fading_mean
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fourfold import register_layer
from fourfold.layers import LayerState, MemoryLayer
from fourfold.layers.packing import mask_of, pack, unpack


@dataclass(frozen=True)
class FadingState(LayerState):
    """mean: (N, hidden_size)."""

    mean: Tensor


class FadingMean(MemoryLayer[FadingState]):
    """What each token adds, and how much of the rest it keeps, are linear maps of it."""

    def __init__(self, *, hidden_size):
        super().__init__()
        self.hidden_size = hidden_size
        self.value_proj = nn.Linear(hidden_size, hidden_size, bias=False)
        self.keep_proj = nn.Linear(hidden_size, hidden_size)
        self.out_proj = nn.Linear(hidden_size, hidden_size, bias=False)
        self.reset_parameters()

    def process(self, x, state, cu_seqlens):
        sequences = len(x) if cu_seqlens is None else len(cu_seqlens) - 1
        if state is None:
            state = self.initial_state(sequences, dtype=x.dtype, device=x.device)
        value, keep = self.value_proj(x), self.keep_proj(x).sigmoid()
        if cu_seqlens is None:
            y, mean = walk(value, keep, state.mean)
            return self.out_proj(y), FadingState(mean)
        # Packed sequences become rows that are padded on the right; padding keeps all of the rest.
        mask = mask_of(cu_seqlens)
        value, keep = unpack(value, mask), unpack(keep - 1, mask) + 1
        y, mean = walk(value, keep, state.mean)
        return self.out_proj(pack(y, mask)), FadingState(mean)

    def initial_state(self, sequences, *, dtype, device=None):
        return FadingState(torch.zeros(sequences, self.hidden_size, dtype=dtype, device=device))


def walk(value, keep, mean):
    """(B, T, size) twice and (B, size) -> the mean behind each token, and behind the last."""
    found = [value[:, :0]]
    for t in range(value.shape[1]):
        mean = keep[:, t] * mean + (1 - keep[:, t]) * value[:, t]
        found.append(mean[:, None])
    return torch.cat(found, 1), mean


register_layer("fading_mean", lambda config: FadingMean(hidden_size=config.hidden_size))

"""Softmax attention with rotary positions."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fourfold.layers.growing import appended
from fourfold.layers.packing import mask_of, pack, unpack
from fourfold.layers.reach import Delays, ReachingLayer
from fourfold.layers.state import AttentionState
from fourfold.ops.reach import NOWHERE, Reach, read_in_reach


class Attention(ReachingLayer[AttentionState]):
    """Causal multi-head attention; its memory grows with every token unless a window bounds it.

    Args:
        hidden_size: size of x.
        num_heads: query heads.
        num_kv_heads: key/value heads G; None for as many as query heads.
        head_dim: Dh, even.
        rope_theta: base of the rotary frequencies.
        sliding_window: tokens that can be seen, the current one included; None for all.
        delay: how near a token may be to be seen; 0 for the current one. Where none is far enough
            away, nothing is read.
        training_delay: least and greatest delay, drawn at random while training; None for
            ``delay``.
        delay_draw: see ``draw_delays``.

    Source: arXiv 1706.03762; rotary positions 2104.09864; grouped heads 2305.13245.
    """

    def __init__(
        self,
        *,
        hidden_size: int,
        num_heads: int,
        head_dim: int,
        num_kv_heads: int | None = None,
        rope_theta: float = 10_000.0,
        sliding_window: int | None = None,
        delay: int = 0,
        training_delay: Sequence[int] | None = None,
        delay_draw: str = "call",
    ) -> None:
        super().__init__()
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        if num_kv_heads < 1 or num_heads % num_kv_heads:
            raise ValueError(
                f"num_kv_heads must divide num_heads = {num_heads}; got {num_kv_heads}."
            )
        if head_dim % 2:
            raise ValueError(f"head_dim must be even for rotary positions; got {head_dim}.")
        if sliding_window is not None and sliding_window < 1:
            raise ValueError(f"sliding_window must be at least 1 or None; got {sliding_window}.")
        self.hidden_size, self.num_heads, self.num_kv_heads = hidden_size, num_heads, num_kv_heads
        self.head_dim, self.rope_theta = head_dim, rope_theta
        if delay < 0:
            raise ValueError(f"delay must be at least 0; got {delay}.")
        self.sliding_window, self.delay = sliding_window, delay
        self.training_delay, self.delay_draw = training_delay, delay_draw
        self.q_proj = nn.Linear(hidden_size, num_heads * head_dim, bias=False)
        self.k_proj = nn.Linear(hidden_size, num_kv_heads * head_dim, bias=False)
        self.v_proj = nn.Linear(hidden_size, num_kv_heads * head_dim, bias=False)
        self.out_proj = nn.Linear(num_heads * head_dim, hidden_size, bias=False)
        self.reset_parameters()

    def read(
        self, x: Tensor, state: AttentionState | None, cu_seqlens: Tensor | None, delays: Delays
    ) -> tuple[Tensor, AttentionState]:
        if cu_seqlens is None:
            return self._attend(x, state, None, delays)
        mask = mask_of(cu_seqlens)
        y, state = self._attend(unpack(x, mask), state, mask, delays)
        return pack(y, mask), state

    def _attend(
        self, x: Tensor, state: AttentionState | None, mask: Tensor | None, delays: Delays
    ) -> tuple[Tensor, AttentionState]:
        """x (N, T, hidden_size); mask (N, T) marks the tokens, None if all are."""
        sequences, tokens, _ = x.shape
        if state is None:
            state = self.initial_state(sequences, dtype=x.dtype, device=x.device)
        bounded = self.sliding_window is not None or delays != 0
        plain = state.positions.shape[1] == 0 and mask is None and not bounded
        positions = self._next_positions(state, tokens, mask)
        q, k, v = (
            proj(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
            for proj in (self.q_proj, self.k_proj, self.v_proj)
        )
        # With nothing held and nothing padded, all rows stand at the same positions.
        alike = mask is None and not state.positions.shape[1]
        cos, sin = self._turns(positions[:1] if alike else positions, x.dtype)
        q, k = _rotate(q, cos, sin), _rotate(k, cos, sin)
        if state.positions.shape[1]:
            k, v = appended(state.keys, k, 2), appended(state.values, v, 2)
            held = appended(state.positions, positions, 1)
        else:
            held = positions
        state = AttentionState(keys=k, values=v, positions=held)
        if plain:
            grouped = self.num_heads != self.num_kv_heads
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=grouped)
        else:
            delay = delays if isinstance(delays, int) else positions.new_tensor(delays)[:, None]
            y = read_in_reach(q, k, v, positions, held, Reach(self.sliding_window, delay))
        return self.out_proj(y.transpose(1, 2).flatten(-2)), self._drop_unreachable(state)

    def _next_positions(self, state: AttentionState, tokens: int, mask: Tensor | None) -> Tensor:
        """(N, T): each token's place in its own sequence."""
        held = state.positions
        start = held.amax(1, keepdim=True) + 1 if held.shape[1] else held.new_zeros(len(held), 1)
        if mask is None:
            return start + torch.arange(tokens, device=held.device)
        return torch.where(mask, start + mask.cumsum(1) - 1, NOWHERE)

    def _turns(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Cosines and sines (N, 1, T, Dh / 2) of the angles of positions (N, T)."""
        precise = torch.promote_types(dtype, torch.float32)
        half = torch.arange(0, self.head_dim, 2, device=positions.device, dtype=precise)
        frequencies = self.rope_theta ** (-half / self.head_dim)
        angles = (positions[..., None] * frequencies)[:, None]
        return angles.cos(), angles.sin()

    def _drop_unreachable(self, state: AttentionState) -> AttentionState:
        """Forget slots that no later query can see."""
        if self.sliding_window is None or state.positions.shape[1] < self.sliding_window:
            return state
        newest = state.positions.amax(1, keepdim=True)
        reach = (state.positions != NOWHERE) & (state.positions > newest + 1 - self.sliding_window)
        return state.keep(reach)

    def initial_state(
        self, sequences: int, *, dtype: torch.dtype, device: torch.device | str | None = None
    ) -> AttentionState:
        empty = torch.zeros(
            sequences, self.num_kv_heads, 0, self.head_dim, dtype=dtype, device=device
        )
        positions = torch.zeros(sequences, 0, dtype=torch.long, device=device)
        return AttentionState(keys=empty, values=empty, positions=positions)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn (N, heads, T, Dh) by angles of positions, in float32 at least."""
    first, second = x.to(cos.dtype).chunk(2, -1)
    turned = torch.cat([first * cos - second * sin, second * cos + first * sin], -1)
    return turned.to(x.dtype)

"""One memory of pairs: what is in reach, how keys and values are made, how sharply it is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from fourfold.layers.growing import appended
from fourfold.layers.packing import mask_of, pack, unpack
from fourfold.layers.reach import Delays, ReachingLayer, check_reach
from fourfold.layers.state import PairState
from fourfold.ops import associative_read, gated_keys
from fourfold.ops.pointwise import unit
from fourfold.ops.reach import NOWHERE

LARGEST_SHARPNESS, LARGEST_SCALE = 10.0, 15.0
"""Bounds of θ under exponentials, from the paper's table of parameters."""


class AssociativeMemory(ReachingLayer[PairState]):
    """Pairs of a key (a situation) and a value (what followed it), read by kernel regression.

        k̄_t = g_t W_φ x_t + λ_t k̄₋₁           k_t = k̄_t / ‖k̄_t‖            also what is asked
        v̄_t = γ W_ψ x_t + (1 − γ) W_ψ x_{t+1}   v_t = α v̄_t / ‖v̄_t‖          pair t waits for t + 1
        y_t = Σ_i softmax_i(β(n) k_tᵀ k_i) v_i  β(n) = β₁ n^a + β₀            n pairs in reach

    Position t reads pairs i with t − window < i ≤ t − delay, and nothing where there is none.

    Args:
        hidden_size: size of x.
        num_heads, head_dim: H and Dh.
        gated: g and λ follow the input; otherwise g = 1 and λ is a parameter a head.
        shared_gates: one g and one λ for all heads, where they follow the input.
        adaptive: β grows with n; otherwise β₀ alone.
        window: how far back it reaches; None for all of the past.
        delay: how near a pair may be, at least 1.
        training_delay: least and greatest delay, drawn at random while training; None for
            ``delay``.
        delay_draw: see ``draw_delays``.

    Source: seed 003, sections 2.3 to 2.6; arXiv 2507.03285, equations 6 to 9 and table 6, which
    does not say whether gates and γ are of a head each or shared. What is neither gated nor
    adaptive is the memory of the first Memory Mosaics, arXiv 2405.06394, with the starts of its
    published code.
    """

    def __init__(
        self,
        *,
        hidden_size: int,
        num_heads: int,
        head_dim: int,
        gated: bool = True,
        shared_gates: bool = False,
        adaptive: bool = True,
        window: int | None = None,
        delay: int = 1,
        training_delay: Sequence[int] | None = None,
        delay_draw: str = "call",
    ) -> None:
        super().__init__()
        check_reach(window, delay, training_delay, delay_draw)
        self.hidden_size, self.num_heads, self.head_dim = hidden_size, num_heads, head_dim
        self.window, self.delay, self.delay_draw = window, delay, delay_draw
        self.training_delay = None if training_delay is None else tuple(training_delay)
        size = num_heads * head_dim
        self.key_proj = nn.Linear(hidden_size, size, bias=False)
        self.value_proj = nn.Linear(hidden_size, size, bias=False)
        gates = 1 if shared_gates else num_heads
        self.gate_proj = nn.Linear(hidden_size, 2 * gates, bias=False) if gated else None
        self.decay = None if gated else nn.Parameter(torch.empty(num_heads))
        self.beta0 = nn.Parameter(torch.empty(num_heads))
        self.beta1 = nn.Parameter(torch.empty(num_heads)) if adaptive else None
        self.exponent = nn.Parameter(torch.empty(num_heads)) if adaptive else None
        self.mix = nn.Parameter(torch.empty(num_heads))
        self.scale = nn.Parameter(torch.empty(num_heads))
        self.out_proj = nn.Linear(size, hidden_size, bias=False)
        self.reset_parameters()

    def initial_values(self, std: float) -> Iterator[tuple[Tensor, Tensor]]:
        yield self.mix, torch.rand_like(self.mix)
        if self.beta1 is not None and self.exponent is not None:
            yield self.beta0, torch.full_like(self.beta0, 1.5)
            yield self.beta1, torch.full_like(self.beta1, 1.5)
            yield self.exponent, torch.full_like(self.exponent, 1 / 3)
            # The paper starts at 0, where |θ| has no gradient.
            yield self.scale, torch.full_like(self.scale, 0.01)
        else:
            yield self.beta0, torch.full_like(self.beta0, 2.0)
            yield self.scale, torch.full_like(self.scale, -0.5)
        if self.decay is not None:
            yield self.decay, torch.linspace(0.5, 5.0, self.num_heads).to(self.decay)

    def read(
        self, x: Tensor, state: PairState | None, cu_seqlens: Tensor | None, delays: Delays
    ) -> tuple[Tensor, PairState]:
        mask = None if cu_seqlens is None else mask_of(cu_seqlens)
        keys, recurrence = self._keys(x, state, cu_seqlens)
        values = self.value_proj(x).unflatten(-1, (self.num_heads, self.head_dim))
        if mask is not None:
            keys, values = unpack(keys, mask), unpack(values, mask)
        rows, tokens = keys.shape[:2]
        if state is None:
            empty = self.initial_state(rows, dtype=keys.dtype, device=keys.device)
        else:
            empty = state
        positions = self._positions(empty, tokens, mask)
        # What was left waiting for its successor stands before the new tokens.
        places = torch.cat([empty.position[:, None], positions], 1)
        waiting = torch.cat([empty.pending_value[:, None], values], 1)
        asked = torch.cat([empty.pending_key[:, None], keys], 1)
        pairs = self._valued(waiting[:, :-1], waiting[:, 1:])
        whole = (places[:, :-1] != NOWHERE) & (places[:, 1:] != NOWHERE)
        held = appended(empty.positions, torch.where(whole, places[:, :-1], NOWHERE), 1)
        stored_keys = appended(empty.keys, asked[:, :-1], 1)
        stored_values = appended(empty.values, pairs, 1)
        if state is None:
            # The last value is none yet, and nothing reads it.
            ahead = torch.cat([pairs[:, 1:], torch.zeros_like(pairs[:, :1])], 1)
            y = self._read(keys, ahead, delays)
        else:
            asking = dict(q=keys, positions=positions, held=held)
            y = self._read(stored_keys, stored_values, delays, **asking)
        last = places.argmax(1)
        row = torch.arange(rows, device=x.device)
        new = PairState(
            keys=stored_keys,
            values=stored_values,
            positions=held,
            recurrence=recurrence,
            pending_key=asked[row, last],
            pending_value=waiting[row, last],
            position=places[row, last],
        )
        # How many slots are left hangs on what is in them, which no compiled graph can know.
        new = new if torch.compiler.is_compiling() else new.reachable(self.window)
        y = y.flatten(-2)
        return self.out_proj(y if mask is None else pack(y, mask)), new

    def _keys(
        self, x: Tensor, state: PairState | None, cu_seqlens: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        raw = self.key_proj(x).unflatten(-1, (self.num_heads, self.head_dim))
        if self.gate_proj is not None:
            log_gate, decay = (
                gate.expand(*raw.shape[:-1]) for gate in self.gate_proj(x).chunk(2, -1)
            )
        else:
            assert self.decay is not None
            log_gate = raw.new_zeros(raw.shape[:-1])
            decay = self.decay.expand_as(log_gate)
        keys, recurrence = gated_keys(
            x=raw,
            log_gate=log_gate,
            log_decay=-decay.abs(),
            initial_state=None if state is None else state.recurrence,
            cu_seqlens=cu_seqlens,
        )
        assert recurrence is not None
        return keys, recurrence

    def _valued(self, value: Tensor, following: Tensor) -> Tensor:
        """v of pairs, from W_ψ x of a token and of the one behind it."""
        mix = self.mix[:, None]
        scale = self.scale.abs().clamp(max=LARGEST_SCALE) if self.beta1 is not None else self.scale
        return unit(mix * value + (1 - mix) * following) * scale.exp()[:, None]

    def _read(
        self,
        keys: Tensor,
        values: Tensor,
        delays: Delays,
        *,
        q: Tensor | None = None,
        positions: Tensor | None = None,
        held: Tensor | None = None,
    ) -> Tensor:
        beta0 = self.beta0.clamp(max=LARGEST_SHARPNESS).exp()
        if self.beta1 is None or self.exponent is None:
            beta1, exponent = torch.zeros_like(beta0), torch.zeros_like(beta0)
        else:
            beta1 = self.beta1.clamp(max=LARGEST_SHARPNESS).exp()
            exponent = self.exponent.abs().clamp(max=1.0)

        def read(delay: int, rows: slice) -> Tensor:
            parts = (None if x is None else x[rows] for x in (q, positions, held))
            asked, places, stored = parts
            return associative_read(
                k=keys[rows],
                v=values[rows].to(keys.dtype),
                beta0=beta0,
                beta1=beta1,
                exponent=exponent,
                window=self.window,
                delay=delay,
                q=asked,
                positions=places,
                held=stored,
            )

        if isinstance(delays, int):
            return read(delays, slice(None))
        each = enumerate(delays)
        return torch.cat([read(delay, slice(row, row + 1)) for row, delay in each])

    @staticmethod
    def _positions(state: PairState, tokens: int, mask: Tensor | None) -> Tensor:
        """(N, T): each token's place in its own sequence."""
        start = state.position[:, None] + 1
        if mask is None:
            return start + torch.arange(tokens, device=start.device)
        return torch.where(mask, start + mask.cumsum(1) - 1, NOWHERE)

    def initial_state(
        self, sequences: int, *, dtype: torch.dtype, device: torch.device | str | None = None
    ) -> PairState:
        """The empty state of N sequences."""

        def zeros(*shape: int, kind: torch.dtype = dtype) -> Tensor:
            return torch.zeros(sequences, *shape, dtype=kind, device=device)

        head = (self.num_heads, self.head_dim)
        return PairState(
            keys=zeros(0, *head),
            values=zeros(0, *head),
            positions=zeros(0, kind=torch.long),
            recurrence=zeros(*head, kind=torch.promote_types(dtype, torch.float32)),
            pending_key=zeros(*head),
            pending_value=zeros(*head),
            position=zeros(kind=torch.long) + NOWHERE,
        )

"""How a call is cut up: chunk size, tiles, panels of columns, chunks of packed rows. No Triton."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

MAX_BLOCKS = 8
"""Column blocks: each costs a triangular inverse a chunk."""


@dataclass(frozen=True)
class Plan:
    """The sizes of a call, and what the kernels derive from them.

    Attributes:
        batch, tokens, heads, address, columns: B, T, H, S, D.
        edges: G + 1 column offsets from 0 to D.
        sequences: N.
        packed: whether the sequences are packed into one row.
        wide: whether inputs are float32, not bfloat16.
    """

    batch: int
    tokens: int
    heads: int
    address: int
    columns: int
    edges: tuple[int, ...]
    sequences: int
    packed: bool
    wide: bool

    @property
    def blocks(self) -> int:
        return len(self.edges) - 1

    @property
    def chunk(self) -> int:
        """C. In float32 a thread multiplies whole rows in registers, which hold half as much."""
        return 32 if self.wide else 64

    @property
    def chunks(self) -> int:
        """M: for packed rows a bound, since lengths are not known without a synchronisation."""
        if self.packed:
            return self.tokens // self.chunk + self.sequences
        return self.batch * -(-self.tokens // self.chunk)

    @property
    def address_tile(self) -> int:
        """Addresses of a tile in kernels that work on one chunk."""
        return min(self.chunk, _tile(self.address))

    @property
    def column_tile(self) -> int:
        """Columns of such a tile."""
        return min(self.chunk, _tile(self._widest))

    @property
    def state_tile(self) -> int:
        """Addresses of a tile of the state that the scan carries; it carries them all."""
        return min(64, _tile(self.address))

    @property
    def scan_widths(self) -> tuple[int, int]:
        """Columns that a scan may carry: many where that fits the registers, and few."""
        few = min(32, self.column_tile)
        return (few if self.address > 128 else self.column_tile), few

    @property
    def _widest(self) -> int:
        return max(last - first for first, last in pairwise(self.edges))

    @property
    def alignment(self) -> int:
        """What all edges are multiples of, as far as it helps vector loads."""
        return math.gcd(16, *self.edges)

    def panels(self, width: int) -> int:
        """Panels of at most ``width`` columns that lie inside one block each."""
        return sum(-(-(last - first) // width) for first, last in pairwise(self.edges))


def make_plan(q: Tensor, e: Tensor, edges: list[int], cu_seqlens: Tensor | None) -> Plan:
    """The plan for q (B, T, H, S) and e (B, T, H, D).

    Raises:
        TypeError: inputs that are neither float32 nor bfloat16.
        ValueError: more column blocks than this form takes.
    """
    if len(edges) - 1 > MAX_BLOCKS:
        raise ValueError(
            f"The GPU form takes at most {MAX_BLOCKS} column blocks; got {len(edges) - 1}. "
            "Each block costs a triangular inverse a chunk."
        )
    if e.dtype not in (torch.float32, torch.bfloat16) or q.dtype != e.dtype:
        raise TypeError(
            f"The GPU form takes q, s, d and e all in float32 or all in bfloat16; "
            f"got q in {q.dtype} and e in {e.dtype}."
        )
    batch, tokens, heads, address = q.shape
    return Plan(
        batch=batch,
        tokens=tokens,
        heads=heads,
        address=address,
        columns=e.shape[-1],
        edges=tuple(edges),
        sequences=batch if cu_seqlens is None else cu_seqlens.shape[0] - 1,
        packed=cu_seqlens is not None,
        wide=e.dtype == torch.float32,
    )


def kept_shapes(
    q: Tensor, e: Tensor, edges: list[int], cu_seqlens: Tensor | None, keep: bool
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes of what ``forward`` keeps: predicted, always float32, and states, in e's dtype."""
    if not keep:
        return (0,), (0,)
    plan = make_plan(q, e, edges, cu_seqlens)
    return tuple(e.shape), (plan.chunks, plan.heads, plan.address, plan.columns)


def chunks_of(plan: Plan, cu_seqlens: Tensor) -> tuple[Tensor, Tensor]:
    """Where the chunks of packed sequences lie, found on the device.

    Args:
        cu_seqlens: (N + 1,) int64.

    Returns:
        (M, 2) the first token of each chunk and the end of its sequence, which for the surplus
        chunks comes no later; and (N,) the first chunk of each sequence.
    """
    counts = (cu_seqlens.diff() + plan.chunk - 1) // plan.chunk
    ends = counts.cumsum(0)
    number = torch.arange(plan.chunks, device=cu_seqlens.device)
    if not plan.sequences:
        return number.new_zeros(0, 2), ends
    # right=True steps over empty sequences.
    owner = torch.searchsorted(ends, number, right=True).clamp_(max=plan.sequences - 1)
    starts = ends - counts
    first = cu_seqlens[owner] + (number - starts[owner]) * plan.chunk
    return torch.stack([first, cu_seqlens[owner + 1]], -1), starts


def _tile(size: int) -> int:
    """The power of two that holds ``size``; matrix instructions take no less than 16."""
    return max(16, 1 << (size - 1).bit_length()) if size else 16

"""What every kernel does with a chunk: find its tokens, its decays, and its triangular inverse."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def chunk_tokens(chunk, bounds, T, C: tl.constexpr, PACKED: tl.constexpr):
    """First token of a chunk and the end of its sequence, counted over all rows, in int64."""
    if PACKED:
        first = tl.load(bounds + 2 * chunk)
        stop = tl.load(bounds + 2 * chunk + 1)
    else:
        per_row = tl.cdiv(T, C)
        row = (chunk // per_row).to(tl.int64)
        first = row * T + (chunk % per_row) * C
        stop = (row + 1) * T
    return first, stop


@triton.jit
def block_columns(block, EDGES: tl.constexpr, G: tl.constexpr, ALIGN: tl.constexpr):
    """First column of a block and the one behind its last."""
    start = block * 0
    stop = block * 0
    for g in tl.static_range(G):
        start = tl.where(block == g, EDGES[g], start)
        stop = tl.where(block == g, EDGES[g + 1], stop)
    # Without these hints the masks would keep loads from being vectorised.
    return tl.multiple_of(start, ALIGN), tl.multiple_of(stop, ALIGN)


@triton.jit
def panel_columns(
    panel, EDGES: tl.constexpr, G: tl.constexpr, ALIGN: tl.constexpr, BV: tl.constexpr
):
    """The block in which a panel lies, the panel's first column, and the end of the block."""
    block = panel * 0
    within = panel * 0
    before = 0
    for g in tl.static_range(G):
        count = (EDGES[g + 1] - EDGES[g] + BV - 1) // BV
        own = (panel >= before) & (panel < before + count)
        block = tl.where(own, g, block)
        within = tl.where(own, panel - before, within)
        before += count
    start, stop = block_columns(block, EDGES, G, ALIGN)
    return block, tl.multiple_of(start + within * BV, ALIGN), stop


@triton.jit
def load_rows(pointer, at, inside, columns, stop, WIDTH: tl.constexpr):
    """Rows ``at`` of a matrix WIDTH wide, zero where not ``inside`` and from column ``stop`` on."""
    return tl.load(
        pointer + at[:, None] * WIDTH + columns[None, :],
        mask=inside[:, None] & (columns < stop)[None, :],
        other=0.0,
    )


@triton.jit
def store_rows(pointer, value, at, inside, columns, stop, WIDTH: tl.constexpr):
    """The inverse of ``load_rows``."""
    tl.store(
        pointer + at[:, None] * WIDTH + columns[None, :],
        value.to(pointer.dtype.element_ty),
        mask=inside[:, None] & (columns < stop)[None, :],
    )


@triton.jit
def load_columns(pointer, at, inside, columns, stop, WIDTH: tl.constexpr):
    """The transpose of what ``load_rows`` loads.

    Transposed on the way, and computed tiles only as second factors: Triton for Hopper has made
    wrong code of ``tl.trans`` and of first factors in registers (fla-org/flash-linear-attention
    issue 640, triton-lang/triton pull request 11781).
    """
    return tl.load(
        pointer + at[None, :] * WIDTH + columns[:, None],
        mask=inside[None, :] & (columns < stop)[:, None],
        other=0.0,
    )


@triton.jit
def store_columns(pointer, value, at, inside, columns, stop, WIDTH: tl.constexpr):
    """The inverse of ``load_columns``."""
    tl.store(
        pointer + at[None, :] * WIDTH + columns[:, None],
        value.to(pointer.dtype.element_ty),
        mask=inside[None, :] & (columns < stop)[:, None],
    )


@triton.jit
def square(C: tl.constexpr):
    """Offsets of a (C, C) matrix."""
    return tl.arange(0, C)[:, None] * C + tl.arange(0, C)[None, :]


@triton.jit
def pairwise_decay(log_alpha, at, inside, C: tl.constexpr):
    """R_ij = γ_i/γ_j for j ≤ i, zero above the diagonal.

    The logarithms from j + 1 to i are summed for every j apart: a difference of two long sums
    would lose the small decays that follow a violent one, and turn −inf into NaN.
    """
    i = tl.arange(0, C)[:, None]
    j = tl.arange(0, C)[None, :]
    step = tl.load(log_alpha + at, mask=inside, other=0.0)
    sums = tl.cumsum(tl.where(i > j, step[:, None], 0.0), 0)
    return tl.where(i >= j, tl.exp(sums), 0.0)


@triton.jit
def outer_decays(log_alpha, t, stop, h, H: tl.constexpr, C: tl.constexpr):
    """γ_i, from before the chunk to token i, and R_Ci, from token i to the end of the chunk."""
    at = t * H + h
    step = tl.load(log_alpha + at, mask=t < stop, other=0.0)
    # The next token's, so that nothing need be taken off the sum of what follows.
    next_inside = (t + 1 < stop) & (tl.arange(0, C) < C - 1)
    following = tl.load(log_alpha + at + H, mask=next_inside, other=0.0)
    return tl.exp(tl.cumsum(step, 0)), tl.exp(tl.cumsum(following, 0, reverse=True))

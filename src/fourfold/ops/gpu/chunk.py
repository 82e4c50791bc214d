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


@triton.jit
def chunk_pairs(
    q,
    s,
    d,
    log_alpha,
    at,
    inside,
    S: tl.constexpr,
    C: tl.constexpr,
    BK: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """A_ij = R_ij q_iᵀd_j for j ≤ i and L_ij = R_ij s_iᵀd_j for j < i, in float32."""
    A = tl.zeros([C, C], tl.float32)
    L = tl.zeros([C, C], tl.float32)
    for k in range(0, S, BK):
        columns = k + tl.arange(0, BK)
        written = tl.trans(load_rows(d, at, inside, columns, S, S))
        queried = load_rows(q, at, inside, columns, S, S)
        sourced = load_rows(s, at, inside, columns, S, S)
        A = tl.dot(queried, written, A, input_precision=PRECISION)
        L = tl.dot(sourced, written, L, input_precision=PRECISION)
    decay = pairwise_decay(log_alpha, at, inside, C)
    i = tl.arange(0, C)[:, None]
    j = tl.arange(0, C)[None, :]
    return A * decay, tl.where(i > j, L * decay, 0.0)


@triton.jit
def unit_lower_inverse(N, C: tl.constexpr, PRECISION: tl.constexpr):
    """(I + N)⁻¹ of a strictly lower triangular (C, C) matrix, C = 16 · 2ⁿ.

    All diagonal blocks of 16 at once by substitution, row by row; then blocks twice the size, by
    [[F, 0], [N', H]]⁻¹ = [[F⁻¹, 0], [−H⁻¹ N' F⁻¹, H⁻¹]].
    """
    BLOCKS: tl.constexpr = C // 16
    block = tl.arange(0, BLOCKS)
    diagonal = block[:, None, None, None] == block[None, None, :, None]
    row = tl.arange(0, 16)[None, :, None]
    column = tl.arange(0, 16)[None, None, :]
    tiles = tl.reshape(N, (BLOCKS, 16, BLOCKS, 16))
    # Transposed, so that a row of N comes out along the axis that it multiplies.
    tiles = tl.permute(tl.sum(tl.where(diagonal, tiles, 0.0), 2), (0, 2, 1))
    inverse = tl.where(row == column, 1.0, 0.0) + tl.zeros([BLOCKS, 16, 16], tl.float32)
    for i in range(1, 16):
        factors = tl.sum(tl.where(column == i, tiles, 0.0), 2)
        known = tl.sum(factors[:, :, None] * inverse, 1)
        inverse -= tl.where(row == i, known[:, None, :], 0.0)
    inverse = tl.where(diagonal, inverse[:, :, None, :], 0.0)
    inverse = tl.reshape(inverse, (C, C))

    i = tl.arange(0, C)[:, None]
    j = tl.arange(0, C)[None, :]
    for level in tl.static_range(6):
        size = 16 << level
        if size < C:
            joined = (i // (2 * size) == j // (2 * size)) & (i // size != j // size)
            below = tl.where(joined, N, 0.0)
            product = tl.dot(below, inverse, input_precision=PRECISION)
            inverse -= tl.dot(inverse, product, input_precision=PRECISION)
    return inverse

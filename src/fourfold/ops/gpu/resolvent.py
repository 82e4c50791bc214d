"""The triangular system of a chunk, in float32 and small tiles, without tensor cores."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def resolvent(L, erase, first, stop, h, g, H: tl.constexpr, G: tl.constexpr, C: tl.constexpr):
    """K = L (I + diag(ω_e) L)⁻¹ for a strictly lower triangular (C, C) matrix at L, C = 32 or 64.

    The inverse itself is X = I − diag(ω_e) K. K is made instead of it and X of K, and not the other
    way round, since a product L X in less than float32 would not fit X to the last bit; where one
    address is written again and again, such misfits add up.

    First all diagonal tiles of 16 at once by substitution, K_i = L_i − Σ_j L_ij ω_j K_j; then tiles
    twice the size: of L = [[F, 0], [N, H]] and the K of F and H

        K = [[K_F, 0], [(I − K_H diag(ω_H)) N (I − diag(ω_F) K_F), K_H]]
    """
    slot = tl.arange(0, C // 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    erased = load_strengths(erase, slot, first, stop, h, g, H, G)
    K = tl.load(L + slot[:, :, None] * C + slot[:, None, :])
    # Transposed, so that a row comes out along the axis that it multiplies.
    factors = tl.load(L + slot[:, None, :] * C + slot[:, :, None]) * erased[:, :, None]
    row = tl.arange(0, 16)[None, :, None]
    column = tl.arange(0, 16)[None, None, :]
    for i in range(2, 16):
        factor = tl.sum(tl.where(column == i, factors, 0.0), 2)
        known = tl.sum(factor[:, :, None] * K, 1)
        K -= tl.where(row == i, known[:, None, :], 0.0)

    K = twice_the_size(K, L, erase, first, stop, h, g, H, G, C, 16)
    if C == 64:
        K = twice_the_size(K, L, erase, first, stop, h, g, H, G, C, 32)
    return tl.reshape(K, (C, C))


@triton.jit
def twice_the_size(
    K,
    L,
    erase,
    first,
    stop,
    h,
    g,
    H: tl.constexpr,
    G: tl.constexpr,
    C: tl.constexpr,
    SIZE: tl.constexpr,
):
    """Diagonal tiles of K, (C / SIZE, SIZE, SIZE) -> (C / SIZE / 2, 2 SIZE, 2 SIZE)."""
    PAIRS: tl.constexpr = C // (2 * SIZE)
    slot = tl.arange(0, PAIRS)[:, None] * (2 * SIZE) + tl.arange(0, SIZE)[None, :]
    upper_erased = load_strengths(erase, slot, first, stop, h, g, H, G)
    lower_erased = load_strengths(erase, slot + SIZE, first, stop, h, g, H, G)
    pairs = tl.reshape(K, (PAIRS, 2, SIZE, SIZE))
    upper, lower = tl.split(tl.permute(pairs, (0, 2, 3, 1)))
    below = tl.load(L + (slot + SIZE)[:, :, None] * C + slot[:, None, :])
    below -= tl.dot(below * upper_erased[:, None, :], upper, input_precision="ieee")
    below -= tl.dot(lower * lower_erased[:, None, :], below, input_precision="ieee")
    left = tl.join(upper, below)
    right = tl.join(tl.zeros([PAIRS, SIZE, SIZE], tl.float32), lower)
    whole = tl.permute(tl.join(left, right), (0, 3, 1, 4, 2))
    return tl.reshape(whole, (PAIRS, 2 * SIZE, 2 * SIZE))


@triton.jit
def load_strengths(strength, slot, first, stop, h, g, H: tl.constexpr, G: tl.constexpr):
    """Those of a block of columns at some slots of a chunk."""
    t = first + slot
    return tl.load(strength + (t * H + h) * G + g, mask=t < stop, other=0.0)

"""Factors of a chunk's predictions, corrections and their gradients, for every chunk at once.

Each block of columns makes A and L anew: kept for several blocks, L would spill from registers.
"""

from __future__ import annotations

import triton
import triton.language as tl

from fourfold.ops.gpu.chunk import (
    block_columns,
    chunk_pairs,
    chunk_tokens,
    load_rows,
    outer_decays,
    square,
    store_rows,
    unit_lower_inverse,
)


@triton.jit(do_not_specialize=["T"])
def prepare_forward(
    q,
    s,
    d,
    e,
    log_alpha,
    erase,
    write,
    A,
    from_entities,
    from_state,
    corrections,
    gamma,
    tail,
    bounds,
    T,
    H: tl.constexpr,
    S: tl.constexpr,
    D: tl.constexpr,
    G: tl.constexpr,
    EDGES: tl.constexpr,
    ALIGN: tl.constexpr,
    C: tl.constexpr,
    BK: tl.constexpr,
    BV: tl.constexpr,
    PACKED: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """One program a chunk, head and block of columns.

    Writes A (M, H, C, C), γ and R_C (B, T, H), the factors of P = from_entities entities +
    from_state E, (M, H, G, C, C) and (B, T, H, G, S), and to ``corrections`` (B, T, H, D) what U is
    without E.
    """
    g = tl.program_id(0) % G
    matrix = tl.program_id(0) // G
    h = matrix % H
    first, stop = chunk_tokens(matrix // H, bounds, T, C, PACKED)
    t = first + tl.arange(0, C)
    inside = t < stop
    at = t * H + h
    a, lower = chunk_pairs(q, s, d, log_alpha, at, inside, S, C, BK, PRECISION)
    to_here, to_end = outer_decays(log_alpha, t, stop, h, H, C)
    matrix = matrix.to(tl.int64)
    if g == 0:
        tl.store(A + matrix * C * C + square(C), a.to(A.dtype.element_ty))
        tl.store(gamma + at, to_here, mask=inside)
        tl.store(tail + at, to_end, mask=inside)

    i = tl.arange(0, C)[:, None]
    j = tl.arange(0, C)[None, :]
    erased = tl.load(erase + at * G + g, mask=inside, other=0.0)
    written = tl.load(write + at * G + g, mask=inside, other=0.0)
    inverse = unit_lower_inverse(erased[:, None] * lower, C, PRECISION)
    # With K = L X, P = K diag(ω_w) entities + (I − K diag(ω_e)) diag(γ) S E. In half precision
    # this is better than γ S E + L U: where one address is written again and again, U nearly
    # cancels in the sum, and its rounding does not.
    product = tl.dot(lower, inverse, input_precision=PRECISION)
    # The scales go to these factors, before they are rounded, not to inputs that are exact.
    factor = tl.where(i == j, 1.0, 0.0) - product * erased[None, :]
    factor = (factor * to_here[None, :]).to(s.dtype.element_ty)
    for k in range(0, S, BK):
        columns = k + tl.arange(0, BK)
        sourced = load_rows(s, at, inside, columns, S, S)
        sourced = tl.dot(factor, sourced, input_precision=PRECISION)
        store_rows(from_state, sourced, at * G + g, inside, columns, S, S)
    factor = (product * written[None, :]).to(e.dtype.element_ty)
    tl.store(from_entities + (matrix * G + g) * C * C + square(C), factor)
    start, end = block_columns(g, EDGES, G, ALIGN)
    for v in range(start, end, BV):
        columns = v + tl.arange(0, BV)
        entities = load_rows(e, at, inside, columns, end, D)
        predicted = tl.dot(factor, entities, input_precision=PRECISION)
        U = written[:, None] * entities - erased[:, None] * predicted
        store_rows(corrections, U, at, inside, columns, end, D)


@triton.jit(do_not_specialize=["T"])
def prepare_backward(
    q,
    s,
    d,
    log_alpha,
    erase,
    dy,
    A,
    L,
    from_gradient,
    dcorrections,
    gamma,
    tail,
    bounds,
    T,
    H: tl.constexpr,
    S: tl.constexpr,
    D: tl.constexpr,
    G: tl.constexpr,
    EDGES: tl.constexpr,
    ALIGN: tl.constexpr,
    C: tl.constexpr,
    BK: tl.constexpr,
    BV: tl.constexpr,
    PACKED: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """One program a chunk, head and block of columns.

    Writes A, γ and R_C as ``prepare_forward`` does, L (M, H, C, C), from_gradient = Xᵀ diag(R_C) D,
    (B, T, H, G, S), and dcorrections = (A X)ᵀ dY, (B, T, H, D), from which ``scan_backward`` makes
    dU.
    """
    g = tl.program_id(0) % G
    matrix = tl.program_id(0) // G
    h = matrix % H
    first, stop = chunk_tokens(matrix // H, bounds, T, C, PACKED)
    t = first + tl.arange(0, C)
    inside = t < stop
    at = t * H + h
    a, lower = chunk_pairs(q, s, d, log_alpha, at, inside, S, C, BK, PRECISION)
    to_here, to_end = outer_decays(log_alpha, t, stop, h, H, C)
    matrix = matrix.to(tl.int64) * C * C + square(C)
    if g == 0:
        tl.store(A + matrix, a.to(A.dtype.element_ty))
        tl.store(L + matrix, lower.to(L.dtype.element_ty))
        tl.store(gamma + at, to_here, mask=inside)
        tl.store(tail + at, to_end, mask=inside)

    erased = tl.load(erase + at * G + g, mask=inside, other=0.0)
    inverse = unit_lower_inverse(erased[:, None] * lower, C, PRECISION)
    factor = tl.trans((inverse * to_end[:, None]).to(d.dtype.element_ty))
    for k in range(0, S, BK):
        columns = k + tl.arange(0, BK)
        written = load_rows(d, at, inside, columns, S, S)
        product = tl.dot(factor, written, input_precision=PRECISION)
        store_rows(from_gradient, product, at * G + g, inside, columns, S, S)
    factor = tl.dot(a, inverse, input_precision=PRECISION)
    factor = tl.trans(factor.to(dy.dtype.element_ty))
    start, end = block_columns(g, EDGES, G, ALIGN)
    for v in range(start, end, BV):
        columns = v + tl.arange(0, BV)
        gradient = load_rows(dy, at, inside, columns, end, D)
        product = tl.dot(factor, gradient, input_precision=PRECISION)
        store_rows(dcorrections, product, at, inside, columns, end, D)

"""What the scans need of every chunk, for all chunks at once."""

from __future__ import annotations

import triton
import triton.language as tl

from fourfold.ops.gpu.chunk import (
    block_columns,
    chunk_tokens,
    load_columns,
    load_rows,
    outer_decays,
    pairwise_decay,
    square,
    store_columns,
)
from fourfold.ops.gpu.resolvent import resolvent


@triton.jit(do_not_specialize=["T"])
def prepare_pairs(
    q,
    s,
    d,
    log_alpha,
    A,
    L,
    gamma,
    tail,
    bounds,
    T,
    H: tl.constexpr,
    S: tl.constexpr,
    C: tl.constexpr,
    BK: tl.constexpr,
    PACKED: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """One program a chunk and head: A and L (M, H, C, C), γ and R_C (B, T, H)."""
    h = tl.program_id(0) % H
    first, stop = chunk_tokens(tl.program_id(0) // H, bounds, T, C, PACKED)
    t = first + tl.arange(0, C)
    inside = t < stop
    at = t * H + h

    queries = tl.zeros([C, C], tl.float32)
    sources = tl.zeros([C, C], tl.float32)
    for k in range(0, S, BK):
        address = k + tl.arange(0, BK)
        written = load_columns(d, at, inside, address, S, S)
        queried = load_rows(q, at, inside, address, S, S)
        sourced = load_rows(s, at, inside, address, S, S)
        queries = tl.dot(queried, written, queries, input_precision=PRECISION)
        sources = tl.dot(sourced, written, sources, input_precision=PRECISION)
    decay = pairwise_decay(log_alpha, at, inside, C)
    i = tl.arange(0, C)[:, None]
    j = tl.arange(0, C)[None, :]
    matrix = tl.program_id(0).to(tl.int64) * C * C + square(C)
    tl.store(A + matrix, (queries * decay).to(A.dtype.element_ty))
    tl.store(L + matrix, tl.where(i > j, sources * decay, 0.0))
    to_here, to_end = outer_decays(log_alpha, t, stop, h, H, C)
    tl.store(gamma + at, to_here, mask=inside)
    tl.store(tail + at, to_end, mask=inside)


@triton.jit(do_not_specialize=["T"])
def prepare_forward(
    s,
    e,
    erase,
    write,
    L,
    gamma,
    from_entities,
    from_state,
    corrections,
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

    Writes the factors of P = from_entities entities + from_state E, (M, H, G, C, C) and
    (B, T, H, G, S), and to ``corrections`` (B, T, H, D) what U is without E.
    """
    g = tl.program_id(0) % G
    matrix = tl.program_id(0) // G
    h = matrix % H
    first, stop = chunk_tokens(matrix // H, bounds, T, C, PACKED)
    t = first + tl.arange(0, C)
    inside = t < stop
    at = t * H + h
    L += matrix.to(tl.int64) * C * C
    erased = tl.load(erase + at * G + g, mask=inside, other=0.0)
    written = tl.load(write + at * G + g, mask=inside, other=0.0)
    to_here = tl.load(gamma + at, mask=inside, other=0.0)

    # P = K diag(ω_w) entities + (I − K diag(ω_e)) diag(γ) S E. In half precision this is better
    # than γ S E + L U: where one address is written again and again, U nearly cancels in that sum,
    # and its rounding does not.
    K = resolvent(L, erase, first, stop, h, g, H, G, C)
    i = tl.arange(0, C)[:, None]
    j = tl.arange(0, C)[None, :]
    # Scales go to these factors, before they are rounded, not to inputs that are exact.
    factor = tl.where(i == j, 1.0, 0.0) - K * erased[None, :]
    factor = tl.trans((factor * to_here[None, :]).to(s.dtype.element_ty))
    for k in range(0, S, BK):
        address = k + tl.arange(0, BK)
        sourced = load_columns(s, at, inside, address, S, S)
        sourced = tl.dot(sourced, factor, input_precision=PRECISION)
        store_columns(from_state, sourced, at * G + g, inside, address, S, S)
    factor = (K * written[None, :]).to(e.dtype.element_ty)
    tl.store(from_entities + tl.program_id(0).to(tl.int64) * C * C + square(C), factor)
    factor = tl.trans(factor)
    start, end = block_columns(g, EDGES, G, ALIGN)
    for v in range(start, end, BV):
        columns = v + tl.arange(0, BV)
        entities = load_columns(e, at, inside, columns, end, D)
        predicted = tl.dot(entities, factor, input_precision=PRECISION)
        U = written[None, :] * entities - erased[None, :] * predicted
        store_columns(corrections, U, at, inside, columns, end, D)


@triton.jit(do_not_specialize=["T"])
def prepare_backward(
    d,
    erase,
    dy,
    A,
    L,
    tail,
    from_gradient,
    dcorrections,
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

    Writes from_gradient = Xᵀ diag(R_C) D, (B, T, H, G, S), and to ``dcorrections`` (B, T, H, D)
    what dU is without dE', (A X)ᵀ dY.
    """
    g = tl.program_id(0) % G
    matrix = tl.program_id(0) // G
    h = matrix % H
    first, stop = chunk_tokens(matrix // H, bounds, T, C, PACKED)
    t = first + tl.arange(0, C)
    inside = t < stop
    at = t * H + h
    A += matrix.to(tl.int64) * C * C
    L += matrix.to(tl.int64) * C * C
    erased = tl.load(erase + at * G + g, mask=inside, other=0.0)
    to_end = tl.load(tail + at, mask=inside, other=0.0)

    K = resolvent(L, erase, first, stop, h, g, H, G, C)
    i = tl.arange(0, C)[:, None]
    j = tl.arange(0, C)[None, :]
    inverse = tl.where(i == j, 1.0, 0.0) - erased[:, None] * K
    factor = (inverse * to_end[:, None]).to(d.dtype.element_ty)
    for k in range(0, S, BK):
        address = k + tl.arange(0, BK)
        written = load_columns(d, at, inside, address, S, S)
        written = tl.dot(written, factor, input_precision=PRECISION)
        store_columns(from_gradient, written, at * G + g, inside, address, S, S)
    product = tl.dot(tl.load(A + square(C)), inverse, input_precision=PRECISION)
    factor = product.to(dy.dtype.element_ty)
    start, end = block_columns(g, EDGES, G, ALIGN)
    for v in range(start, end, BV):
        columns = v + tl.arange(0, BV)
        gradient = load_columns(dy, at, inside, columns, end, D)
        dU = tl.dot(gradient, factor, input_precision=PRECISION)
        store_columns(dcorrections, dU, at, inside, columns, end, D)

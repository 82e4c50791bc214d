"""Gradients of the inputs of every chunk at once, once those of the corrections are known."""

from __future__ import annotations

import triton
import triton.language as tl

from fourfold.ops.gpu.chunk import (
    block_columns,
    chunk_tokens,
    load_columns,
    load_rows,
    pairwise_decay,
    square,
    store_rows,
)


@triton.jit(do_not_specialize=["T"])
def entity_gradients(
    e,
    log_alpha,
    erase,
    write,
    predicted,
    dy,
    dcorrections,
    A,
    L,
    corrections,
    dpredicted,
    decayed_dA,
    decayed_dL,
    de,
    derase,
    dwrite,
    dlog_alpha,
    bounds,
    T,
    H: tl.constexpr,
    D: tl.constexpr,
    G: tl.constexpr,
    EDGES: tl.constexpr,
    ALIGN: tl.constexpr,
    C: tl.constexpr,
    BV: tl.constexpr,
    PACKED: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """One program a chunk and head, over all columns: what sums over columns, and what is of one.

    Writes de, derase, dwrite, U to ``corrections``, dP, R∘dA and R∘dL (M, H, C, C), and to
    ``dlog_alpha`` (B, T, H) the part of the pairs of tokens inside the chunk.
    """
    h = tl.program_id(0) % H
    first, stop = chunk_tokens(tl.program_id(0) // H, bounds, T, C, PACKED)
    t = first + tl.arange(0, C)
    inside = t < stop
    at = t * H + h

    # dL = dP Uᵀ with dP = −ω_e dU, whose factor is the same for all columns of a block.
    dA = tl.zeros([C, C], tl.float32)
    dL = tl.zeros([C, C], tl.float32)
    for g in range(G):
        product = tl.zeros([C, C], tl.float32)
        erase_g = tl.load(erase + at * G + g, mask=inside, other=0.0)
        write_g = tl.load(write + at * G + g, mask=inside, other=0.0)
        derase_g = tl.zeros([C], tl.float32)
        dwrite_g = tl.zeros([C], tl.float32)
        start, end = block_columns(g, EDGES, G, ALIGN)
        for v in range(start, end, BV):
            columns = v + tl.arange(0, BV)
            entities = load_rows(e, at, inside, columns, end, D).to(tl.float32)
            P = load_rows(predicted, at, inside, columns, end, D)
            dU = load_rows(dcorrections, at, inside, columns, end, D)
            gradient = load_rows(dy, at, inside, columns, end, D)
            derase_g -= tl.sum(dU * P, 1)
            dwrite_g += tl.sum(dU * entities, 1)
            store_rows(de, write_g[:, None] * dU, at, inside, columns, end, D)
            U = write_g[:, None] * entities - erase_g[:, None] * P
            U = U.to(corrections.dtype.element_ty)
            store_rows(corrections, U, at, inside, columns, end, D)
            store_rows(dpredicted, -erase_g[:, None] * dU, at, inside, columns, end, D)
            dA = tl.dot(gradient, tl.trans(U), dA, input_precision=PRECISION)
            product = tl.dot(dU, tl.trans(U), product, input_precision=PRECISION)
        dL -= erase_g[:, None] * product
        tl.store(derase + at * G + g, derase_g, mask=inside)
        tl.store(dwrite + at * G + g, dwrite_g, mask=inside)

    i = tl.arange(0, C)[:, None]
    j = tl.arange(0, C)[None, :]
    matrix = tl.program_id(0).to(tl.int64) * C * C + square(C)
    # Token t's decay lies on every path from j < t to i ≥ t: summed, not taken from a difference.
    paths = tl.where(i > j, dA * tl.load(A + matrix) + dL * tl.load(L + matrix), 0.0)
    paths = tl.cumsum(paths, 0, reverse=True)
    tl.store(dlog_alpha + at, tl.sum(tl.where(i > j, paths, 0.0), 1), mask=inside)
    decay = pairwise_decay(log_alpha, at, inside, C)
    tl.store(decayed_dA + matrix, (dA * decay).to(decayed_dA.dtype.element_ty))
    tl.store(decayed_dL + matrix, tl.where(i > j, dL * decay, 0.0).to(decayed_dL.dtype.element_ty))


@triton.jit(do_not_specialize=["T", "part"])
def address_gradients(
    q,
    s,
    d,
    dy,
    corrections,
    dpredicted,
    states,
    dstates,
    gamma,
    tail,
    decayed_dA,
    decayed_dL,
    dq,
    ds,
    dd,
    dlog_alpha,
    bounds,
    T,
    part,
    H: tl.constexpr,
    S: tl.constexpr,
    D: tl.constexpr,
    C: tl.constexpr,
    BK: tl.constexpr,
    BV: tl.constexpr,
    PACKED: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """One program a chunk, head and BK addresses.

    Takes U, dP, R∘dA and R∘dL as ``entity_gradients`` left them. Writes dq, ds and dd, and to its
    own slice of ``dlog_alpha``, ``part`` numbers from one to the next, the part of what enters and
    leaves the chunk.
    """
    TILES: tl.constexpr = (S + BK - 1) // BK
    tile = tl.program_id(0) % TILES
    matrix = tl.program_id(0) // TILES
    h = matrix % H
    first, stop = chunk_tokens(matrix // H, bounds, T, C, PACKED)
    t = first + tl.arange(0, C)
    inside = t < stop
    at = t * H + h
    address = tile * BK + tl.arange(0, BK)
    inside_address = address < S
    matrix = matrix.to(tl.int64)

    dQ = tl.zeros([C, BK], tl.float32)
    dS = tl.zeros([C, BK], tl.float32)
    dD = tl.zeros([C, BK], tl.float32)
    through = tl.zeros([BK], tl.float32)
    for v in range(0, D, BV):
        columns = v + tl.arange(0, BV)
        E = load_columns(states, matrix * S + address, inside_address, columns, D, D)
        dE = load_columns(dstates, matrix * S + address, inside_address, columns, D, D)
        gradient = load_rows(dy, at, inside, columns, D, D)
        U = load_rows(corrections, at, inside, columns, D, D)
        dP = load_rows(dpredicted, at, inside, columns, D, D)
        through += tl.sum(E.to(tl.float32) * dE.to(tl.float32), 0)
        dQ = tl.dot(gradient, E, dQ, input_precision=PRECISION)
        dS = tl.dot(dP, E, dS, input_precision=PRECISION)
        dD = tl.dot(U, dE, dD, input_precision=PRECISION)

    to_here = tl.load(gamma + at, mask=inside, other=0.0)
    to_end = tl.load(tail + at, mask=inside, other=0.0)
    dQ *= to_here[:, None]
    dS *= to_here[:, None]
    dD *= to_end[:, None]
    queried = load_rows(q, at, inside, address, S, S)
    sourced = load_rows(s, at, inside, address, S, S)
    written = load_rows(d, at, inside, address, S, S)
    # Token t's decay lies on the paths from the old state to i ≥ t, from j < t to the new state,
    # and from the old to the new.
    entering = tl.sum(queried * dQ + sourced * dS, 1)
    leaving = tl.sum(written * dD, 1)
    i = tl.arange(0, C)[:, None]
    j = tl.arange(0, C)[None, :]
    paths = tl.sum(tl.where(j >= i, entering[None, :], leaving[None, :]), 1)
    last = tl.minimum(first + C, stop) - 1
    paths += tl.sum(through, 0) * tl.load(gamma + last * H + h)
    tl.store(dlog_alpha + tile.to(tl.int64) * part + at, paths, mask=inside)

    decayed_dA += matrix * C * C
    decayed_dL += matrix * C * C
    transposed = tl.arange(0, C)[:, None] + tl.arange(0, C)[None, :] * C
    dQ = tl.dot(tl.load(decayed_dA + square(C)), written, dQ, input_precision=PRECISION)
    dS = tl.dot(tl.load(decayed_dL + square(C)), written, dS, input_precision=PRECISION)
    dD = tl.dot(tl.load(decayed_dA + transposed), queried, dD, input_precision=PRECISION)
    dD = tl.dot(tl.load(decayed_dL + transposed), sourced, dD, input_precision=PRECISION)
    store_rows(dq, dQ, at, inside, address, S, S)
    store_rows(ds, dS, at, inside, address, S, S)
    store_rows(dd, dD, at, inside, address, S, S)

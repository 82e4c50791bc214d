"""Outputs and predictions of every chunk at once, once the states between them are known."""

from __future__ import annotations

import triton
import triton.language as tl

from fourfold.ops.gpu.chunk import chunk_tokens, load_rows, square, store_rows


@triton.jit(do_not_specialize=["T"])
def outputs(
    q,
    s,
    A,
    L,
    corrections,
    states,
    gamma,
    y,
    predicted,
    bounds,
    T,
    H: tl.constexpr,
    S: tl.constexpr,
    D: tl.constexpr,
    C: tl.constexpr,
    BK: tl.constexpr,
    BV: tl.constexpr,
    PACKED: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """One program a chunk, head and BV columns, whatever their block.

    Writes Y = diag(γ) Q E + A U and, unless ``predicted`` is None, P = diag(γ) S E + L U.
    """
    PANELS: tl.constexpr = (D + BV - 1) // BV
    panel = tl.program_id(0) % PANELS
    matrix = tl.program_id(0) // PANELS
    h = matrix % H
    first, stop = chunk_tokens(matrix // H, bounds, T, C, PACKED)
    t = first + tl.arange(0, C)
    inside = t < stop
    at = t * H + h
    columns = panel * BV + tl.arange(0, BV)
    matrix = matrix.to(tl.int64)

    Y = tl.zeros([C, BV], tl.float32)
    P = tl.zeros([C, BV], tl.float32)
    for k in range(0, S, BK):
        address = k + tl.arange(0, BK)
        E = load_rows(states, matrix * S + address, address < S, columns, D, D)
        queried = load_rows(q, at, inside, address, S, S)
        Y = tl.dot(queried, E, Y, input_precision=PRECISION)
        if predicted is not None:
            sourced = load_rows(s, at, inside, address, S, S)
            P = tl.dot(sourced, E, P, input_precision=PRECISION)
    to_here = tl.load(gamma + at, mask=inside, other=0.0)
    U = load_rows(corrections, at, inside, columns, D, D)
    a = tl.load(A + matrix * C * C + square(C))
    Y = tl.dot(a, U, Y * to_here[:, None], input_precision=PRECISION)
    store_rows(y, Y, at, inside, columns, D, D)
    if predicted is not None:
        lower = tl.load(L + matrix * C * C + square(C))
        P = tl.dot(lower, U, P * to_here[:, None], input_precision=PRECISION)
        store_rows(predicted, P, at, inside, columns, D, D)

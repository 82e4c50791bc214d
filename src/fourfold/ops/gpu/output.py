"""Outputs and predictions of every chunk at once, once the states between them are known."""

from __future__ import annotations

import triton
import triton.language as tl

from fourfold.ops.gpu.chunk import chunk_tokens, load_rows, panel_columns, square, store_rows


@triton.jit(do_not_specialize=["T"])
def outputs(
    q,
    e,
    A,
    from_entities,
    from_state,
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
    G: tl.constexpr,
    EDGES: tl.constexpr,
    ALIGN: tl.constexpr,
    PANELS: tl.constexpr,
    C: tl.constexpr,
    BK: tl.constexpr,
    BV: tl.constexpr,
    PACKED: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """One program a chunk, head and panel.

    Writes Y = diag(γ) Q E + A U and, unless ``predicted`` is None, P = from_entities entities +
    from_state E.
    """
    panel = tl.program_id(0) % PANELS
    matrix = tl.program_id(0) // PANELS
    h = matrix % H
    first, stop = chunk_tokens(matrix // H, bounds, T, C, PACKED)
    t = first + tl.arange(0, C)
    inside = t < stop
    at = t * H + h
    g, column, end = panel_columns(panel, EDGES, G, ALIGN, BV)
    columns = column + tl.arange(0, BV)
    matrix = matrix.to(tl.int64)

    Y = tl.zeros([C, BV], tl.float32)
    P = tl.zeros([C, BV], tl.float32)
    for k in range(0, S, BK):
        address = k + tl.arange(0, BK)
        E = load_rows(states, matrix * S + address, address < S, columns, end, D)
        queried = load_rows(q, at, inside, address, S, S)
        Y = tl.dot(queried, E, Y, input_precision=PRECISION)
        if predicted is not None:
            factor = load_rows(from_state, at * G + g, inside, address, S, S)
            P = tl.dot(factor, E, P, input_precision=PRECISION)
    to_here = tl.load(gamma + at, mask=inside, other=0.0)
    U = load_rows(corrections, at, inside, columns, end, D)
    factor = tl.load(A + matrix * C * C + square(C))
    Y = tl.dot(factor, U, Y * to_here[:, None], input_precision=PRECISION)
    store_rows(y, Y, at, inside, columns, end, D)
    if predicted is not None:
        entities = load_rows(e, at, inside, columns, end, D)
        factor = tl.load(from_entities + (matrix * G + g) * C * C + square(C))
        P = tl.dot(factor, entities, P, input_precision=PRECISION)
        store_rows(predicted, P, at, inside, columns, end, D)

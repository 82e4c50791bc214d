"""The only sequential part: a panel of the state walks from chunk to chunk, and back."""

from __future__ import annotations

import triton
import triton.language as tl

from fourfold.ops.gpu.chunk import load_rows, panel_columns, store_rows


@triton.jit
def sequence_tokens(n, cu_seqlens, starts, T, C: tl.constexpr, PACKED: tl.constexpr):
    """First token of a sequence, the end of its last, and the number of its first chunk."""
    if PACKED:
        first = tl.load(cu_seqlens + n)
        stop = tl.load(cu_seqlens + n + 1)
        chunk = tl.load(starts + n)
    else:
        n = n.to(tl.int64)
        first = n * T
        stop = first + T
        chunk = n * tl.cdiv(T, C)
    return first, stop, chunk


@triton.jit(do_not_specialize=["T"])
def scan_forward(
    d,
    from_state,
    corrections,
    gamma,
    tail,
    initial,
    states,
    final,
    cu_seqlens,
    starts,
    T,
    H: tl.constexpr,
    S: tl.constexpr,
    D: tl.constexpr,
    G: tl.constexpr,
    EDGES: tl.constexpr,
    ALIGN: tl.constexpr,
    PANELS: tl.constexpr,
    C: tl.constexpr,
    SP: tl.constexpr,
    BV: tl.constexpr,
    PACKED: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """One program a sequence, head and panel: U −= from_state E, E ← γ_C E + (R_C D)ᵀ U.

    Writes the state before every chunk (M, H, S, D), the final one (N, H, S, D), and U over
    ``corrections``.
    """
    panel = tl.program_id(0) % PANELS
    sequence = tl.program_id(0) // PANELS
    h = sequence % H
    g, column, end = panel_columns(panel, EDGES, G, ALIGN, BV)
    columns = column + tl.arange(0, BV)
    address = tl.arange(0, SP)
    inside_address = address < S
    first, stop, chunk = sequence_tokens(sequence // H, cu_seqlens, starts, T, C, PACKED)

    row = sequence.to(tl.int64) * S + address
    if initial is not None:
        E = load_rows(initial, row, inside_address, columns, end, D)
    else:
        E = tl.zeros([SP, BV], tl.float32)
    for i in range(tl.cdiv(stop - first, C)):
        t = first + i * C + tl.arange(0, C)
        inside = t < stop
        at = t * H + h
        matrix = ((chunk + i) * H + h) * S + address
        store_rows(states, E, matrix, inside_address, columns, end, D)
        factor = load_rows(from_state, at * G + g, inside, address, S, S)
        U = load_rows(corrections, at, inside, columns, end, D).to(tl.float32)
        U -= tl.dot(factor, E.to(factor.dtype), input_precision=PRECISION)
        store_rows(corrections, U, at, inside, columns, end, D)
        written = load_rows(d, at, inside, address, S, S)
        to_end = tl.load(tail + at, mask=inside, other=0.0)
        last = tl.minimum(first + i * C + C, stop) - 1
        E *= tl.load(gamma + last * H + h)
        U = (U * to_end[:, None]).to(written.dtype)
        E = tl.dot(tl.trans(written), U, E, input_precision=PRECISION)
    store_rows(final, E, row, inside_address, columns, end, D)


@triton.jit(do_not_specialize=["T"])
def scan_backward(
    q,
    s,
    erase,
    dy,
    from_gradient,
    dcorrections,
    gamma,
    dfinal,
    dstates,
    dinitial,
    cu_seqlens,
    starts,
    T,
    H: tl.constexpr,
    S: tl.constexpr,
    D: tl.constexpr,
    G: tl.constexpr,
    EDGES: tl.constexpr,
    ALIGN: tl.constexpr,
    PANELS: tl.constexpr,
    C: tl.constexpr,
    SP: tl.constexpr,
    BV: tl.constexpr,
    PACKED: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """One program a sequence, head and panel, from the last chunk to the first:

        dU += from_gradient dE',    dE = γ_C dE' + (γ Q)ᵀ dY − (ω_e γ S)ᵀ dU

    Writes the gradient dE' of the state behind every chunk (M, H, S, D), that of the initial state
    (N, H, S, D), and dU over ``dcorrections``.
    """
    panel = tl.program_id(0) % PANELS
    sequence = tl.program_id(0) // PANELS
    h = sequence % H
    g, column, end = panel_columns(panel, EDGES, G, ALIGN, BV)
    columns = column + tl.arange(0, BV)
    address = tl.arange(0, SP)
    inside_address = address < S
    first, stop, chunk = sequence_tokens(sequence // H, cu_seqlens, starts, T, C, PACKED)

    row = sequence.to(tl.int64) * S + address
    if dfinal is not None:
        dE = load_rows(dfinal, row, inside_address, columns, end, D)
    else:
        dE = tl.zeros([SP, BV], tl.float32)
    chunks = tl.cdiv(stop - first, C)
    for step in range(chunks):
        i = chunks - 1 - step
        t = first + i * C + tl.arange(0, C)
        inside = t < stop
        at = t * H + h
        matrix = ((chunk + i) * H + h) * S + address
        store_rows(dstates, dE, matrix, inside_address, columns, end, D)
        factor = load_rows(from_gradient, at * G + g, inside, address, S, S)
        dU = load_rows(dcorrections, at, inside, columns, end, D).to(tl.float32)
        dU = tl.dot(factor, dE.to(factor.dtype), dU, input_precision=PRECISION)
        store_rows(dcorrections, dU, at, inside, columns, end, D)
        queried = load_rows(q, at, inside, address, S, S)
        sourced = load_rows(s, at, inside, address, S, S)
        gradient = load_rows(dy, at, inside, columns, end, D)
        to_here = tl.load(gamma + at, mask=inside, other=0.0)
        erased = tl.load(erase + at * G + g, mask=inside, other=0.0)
        last = tl.minimum(first + i * C + C, stop) - 1
        dE *= tl.load(gamma + last * H + h)
        gradient = (gradient * to_here[:, None]).to(queried.dtype)
        dE = tl.dot(tl.trans(queried), gradient, dE, input_precision=PRECISION)
        dP = (-dU * (erased * to_here)[:, None]).to(sourced.dtype)
        dE = tl.dot(tl.trans(sourced), dP, dE, input_precision=PRECISION)
    store_rows(dinitial, dE, row, inside_address, columns, end, D)

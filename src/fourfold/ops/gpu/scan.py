"""The only sequential part: a panel of the state walks from chunk to chunk, and back."""

# The tuples grow while the kernel is compiled; Triton knows no unpacking into one.
# ruff: noqa: RUF005
# mypy: disable-error-code=assignment

from __future__ import annotations

import triton
import triton.language as tl

from fourfold.ops.gpu.chunk import load_columns, load_rows, panel_columns, store_rows


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


@triton.jit
def load_state(
    pointer,
    row,
    columns,
    stop,
    S: tl.constexpr,
    D: tl.constexpr,
    BK: tl.constexpr,
    BV: tl.constexpr,
):
    """A panel of a state from ``row`` on as a tuple of (BK, BV) tiles; zeros if there is none."""
    tiles = ()
    for k in tl.static_range((S + BK - 1) // BK):
        if pointer is not None:
            address = k * BK + tl.arange(0, BK)
            tiles = tiles + (load_rows(pointer, row + address, address < S, columns, stop, D),)
        else:
            tiles = tiles + (tl.zeros([BK, BV], tl.float32),)
    return tiles


@triton.jit
def store_state(
    pointer, tiles, row, columns, stop, S: tl.constexpr, D: tl.constexpr, BK: tl.constexpr
):
    """The inverse of ``load_state``."""
    for k in tl.static_range(len(tiles)):
        address = k * BK + tl.arange(0, BK)
        store_rows(pointer, tiles[k], row + address, address < S, columns, stop, D)


@triton.jit(do_not_specialize=["T"])
def scan_forward(
    d,
    erase,
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
    BK: tl.constexpr,
    BV: tl.constexpr,
    PACKED: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """One program a sequence, head and panel, from the first chunk to the last:

        U −= ω_e from_state E,    E ← γ_C E + (R_C D)ᵀ U

    Writes the state before every chunk (M, H, S, D), the final one (N, H, S, D), and U over
    ``corrections``.
    """
    panel = tl.program_id(0) % PANELS
    sequence = tl.program_id(0) // PANELS
    h = sequence % H
    g, column, end = panel_columns(panel, EDGES, G, ALIGN, BV)
    columns = column + tl.arange(0, BV)
    first, stop, chunk = sequence_tokens(sequence // H, cu_seqlens, starts, T, C, PACKED)

    row = sequence.to(tl.int64) * S
    E = load_state(initial, row, columns, end, S, D, BK, BV)
    for i in range(tl.cdiv(stop - first, C)):
        t = first + i * C + tl.arange(0, C)
        inside = t < stop
        at = t * H + h
        last = tl.minimum(first + i * C + C, stop) - 1
        decay = tl.load(gamma + last * H + h)
        store_state(states, E, ((chunk + i) * H + h) * S, columns, end, S, D, BK)
        P = tl.zeros([C, BV], tl.float32)
        for k in tl.static_range(len(E)):
            address = k * BK + tl.arange(0, BK)
            factor = load_rows(from_state, at * G + g, inside, address, S, S)
            P = tl.dot(factor, E[k].to(factor.dtype), P, input_precision=PRECISION)
        erased = tl.load(erase + at * G + g, mask=inside, other=0.0)
        U = load_rows(corrections, at, inside, columns, end, D) - erased[:, None] * P
        store_rows(corrections, U, at, inside, columns, end, D)
        to_end = tl.load(tail + at, mask=inside, other=0.0)
        U = (U * to_end[:, None]).to(d.dtype.element_ty)
        after = ()
        for k in tl.static_range(len(E)):
            address = k * BK + tl.arange(0, BK)
            written = load_columns(d, at, inside, address, S, S)
            after = after + (tl.dot(written, U, E[k] * decay, input_precision=PRECISION),)
        E = after
    store_state(final, E, row, columns, end, S, D, BK)


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
    BK: tl.constexpr,
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
    first, stop, chunk = sequence_tokens(sequence // H, cu_seqlens, starts, T, C, PACKED)

    row = sequence.to(tl.int64) * S
    dE = load_state(dfinal, row, columns, end, S, D, BK, BV)
    chunks = tl.cdiv(stop - first, C)
    for step in range(chunks):
        i = chunks - 1 - step
        t = first + i * C + tl.arange(0, C)
        inside = t < stop
        at = t * H + h
        last = tl.minimum(first + i * C + C, stop) - 1
        decay = tl.load(gamma + last * H + h)
        store_state(dstates, dE, ((chunk + i) * H + h) * S, columns, end, S, D, BK)
        dU = load_rows(dcorrections, at, inside, columns, end, D).to(tl.float32)
        for k in tl.static_range(len(dE)):
            address = k * BK + tl.arange(0, BK)
            factor = load_rows(from_gradient, at * G + g, inside, address, S, S)
            dU = tl.dot(factor, dE[k].to(factor.dtype), dU, input_precision=PRECISION)
        store_rows(dcorrections, dU, at, inside, columns, end, D)
        to_here = tl.load(gamma + at, mask=inside, other=0.0)
        erased = tl.load(erase + at * G + g, mask=inside, other=0.0)
        gradient = load_rows(dy, at, inside, columns, end, D)
        gradient = (gradient * to_here[:, None]).to(q.dtype.element_ty)
        dP = (-dU * (erased * to_here)[:, None]).to(s.dtype.element_ty)
        before = ()
        for k in tl.static_range(len(dE)):
            address = k * BK + tl.arange(0, BK)
            queried = load_columns(q, at, inside, address, S, S)
            tile = tl.dot(queried, gradient, dE[k] * decay, input_precision=PRECISION)
            sourced = load_columns(s, at, inside, address, S, S)
            before = before + (tl.dot(sourced, dP, tile, input_precision=PRECISION),)
        dE = before
    store_state(dinitial, dE, row, columns, end, S, D, BK)

"""The routines that decide the speed: products, substitutions and transpositions, in registers.

Matrices are row-major scratch, padded: rows to a multiple of ``ROWS``, columns to one of ``PAD``.
A product is cut into tiles that stay in registers from the first to the last term of their sums: 8
rows by 2 vectors on AVX-512 and NEON, 4 by 2 on AVX2 and SSE.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from llvmlite import ir

from fourfold.ops.cpu.vectors import INDEX, REGISTERS, Emitter, device, routine, shift

PAD = 16
"""Columns of a scratch matrix are padded to a multiple of this: whole vectors of any type."""

ROWS = REGISTERS // 4
"""Rows of a tile: with two vectors a row, half of the registers."""


@contextmanager
def _loop(v: Emitter, start: Any, stop: ir.Value, stride: int) -> Iterator[ir.Value]:
    """``for index in range(start, stop, stride)``."""
    builder = v.builder
    start = start if isinstance(start, ir.Value) else v.index(start)
    before = builder.block
    head, body = builder.append_basic_block("head"), builder.append_basic_block("body")
    after = builder.append_basic_block("after")
    builder.branch(head)
    builder.position_at_end(head)
    index = builder.phi(INDEX)
    index.add_incoming(start, before)
    builder.cbranch(builder.icmp_signed("<", index, stop), body, after)
    builder.position_at_end(body)
    yield index
    index.add_incoming(builder.add(index, v.index(stride)), builder.block)
    builder.branch(head)
    builder.position_at_end(after)


def _tile(
    v: Emitter,
    a: ir.Value,
    a_row: ir.Value,
    a_column: ir.Value,
    b: ir.Value,
    b_row: ir.Value,
    depth: ir.Value,
    vectors: int,
) -> list[list[ir.Value]]:
    """Σ_k a[r, k] b[k, :] for ROWS rows and a few vectors of columns; depth is at least 1."""
    builder = v.builder
    rows = [builder.mul(a_row, v.index(r)) for r in range(ROWS)]
    before = builder.block
    loop, after = builder.append_basic_block("depth"), builder.append_basic_block("summed")
    builder.branch(loop)
    builder.position_at_end(loop)
    k = builder.phi(INDEX)
    sums = [[builder.phi(v.type) for _ in range(vectors)] for _ in rows]
    a_k, b_k = builder.mul(k, a_column), builder.mul(k, b_row)
    columns = [v.load(b, builder.add(b_k, v.index(n * v.lanes))) for n in range(vectors)]
    following = builder.add(k, v.index(1))
    k.add_incoming(v.index(0), before)
    k.add_incoming(following, loop)
    grown = []
    for row, old in zip(rows, sums, strict=True):
        factor = v.load_spread(a, builder.add(row, a_k))
        grown.append([v.fma(factor, column, s) for column, s in zip(columns, old, strict=True)])
        for s, new in zip(old, grown[-1], strict=True):
            s.add_incoming(v.zero, before)
            s.add_incoming(new, loop)
    builder.cbranch(builder.icmp_signed("<", following, depth), loop, after)
    builder.position_at_end(after)
    return grown


def _product(
    v: Emitter,
    arguments: Sequence[ir.Value],
    finish: Callable[[ir.Value, ir.Value, ir.Value, ir.Value], ir.Value],
) -> None:
    """All tiles; ``finish(sum, row, c, place)`` says what becomes of each sum."""
    a, a_row, a_column, b, b_row, c, c_row, rows, columns, depth = arguments
    builder = v.builder
    wide_columns = builder.and_(columns, v.index(-2 * v.lanes))
    for start, stop, vectors in ((v.index(0), wide_columns, 2), (wide_columns, columns, 1)):
        with _loop(v, start, stop, vectors * v.lanes) as column, _loop(v, 0, rows, ROWS) as row:
            a_tile = builder.gep(a, [builder.mul(row, a_row)])
            sums = _tile(
                v, a_tile, a_row, a_column, builder.gep(b, [column]), b_row, depth, vectors
            )
            for r in range(ROWS):
                at_row = builder.add(row, v.index(r))
                place = builder.add(builder.mul(at_row, c_row), column)
                for n in range(vectors):
                    at = builder.add(place, v.index(n * v.lanes))
                    v.store(finish(sums[r][n], at_row, c, at), c, at)


@routine("piipipiiiip")
def set_product(v: Emitter, *arguments: ir.Value) -> None:
    """(a, a_row, a_column, b, b_row, c, c_row, rows, columns, depth, scale): c = diag(scale) a b.

    ``a`` is read number by number, with any two strides: a transposed one costs nothing.
    """
    *product, scale = arguments
    _product(v, product, lambda total, row, c, at: v.builder.fmul(v.load_spread(scale, row), total))


@routine("piipipiiiin")
def add_product(v: Emitter, *arguments: ir.Value) -> None:
    """(a, a_row, a_column, b, b_row, c, c_row, rows, columns, depth, keep): c = keep c + a b."""
    *product, keep = arguments
    kept = v.spread(keep)
    _product(v, product, lambda total, row, c, at: v.fma(kept, v.load(c, at), total))


@routine("piippppp" + "i")
def solve_rows(
    v: Emitter,
    system: ir.Value,
    system_row: ir.Value,
    row: ir.Value,
    entities: ir.Value,
    erase: ir.Value,
    write: ir.Value,
    predicted: ir.Value,
    corrections: ir.Value,
    columns: ir.Value,
) -> None:
    """Forward substitution of ROWS tokens, token after token.

    u_r = write_r e_r − erase_r p_r with p_r += Σ_{j<r} L_rj u_j.
    """
    builder = v.builder
    rows = [builder.mul(row, v.index(r)) for r in range(ROWS)]
    with _loop(v, 0, columns, v.lanes) as column:
        places = [builder.add(at, column) for at in rows]
        p = [v.load(predicted, place) for place in places]
        for r, place in enumerate(places):
            erased = builder.fmul(v.load(erase, place), p[r])
            u = builder.fsub(builder.fmul(v.load(write, place), v.load(entities, place)), erased)
            v.store(p[r], predicted, place)
            v.store(u, corrections, place)
            for later in range(r + 1, ROWS):
                at = builder.add(builder.mul(system_row, v.index(later)), v.index(r))
                p[later] = v.fma(v.load_spread(system, at), u, p[later])


@routine("piipppi")
def solve_rows_backward(
    v: Emitter,
    system: ir.Value,
    system_row: ir.Value,
    row: ir.Value,
    erase: ir.Value,
    corrections: ir.Value,
    predicted: ir.Value,
    columns: ir.Value,
) -> None:
    """Backward substitution of ROWS tokens, from the last to the first.

    dp_r = −erase_r du_r and du_j += L_rj dp_r for j < r.
    """
    builder = v.builder
    rows = [builder.mul(row, v.index(r)) for r in range(ROWS)]
    with _loop(v, 0, columns, v.lanes) as column:
        places = [builder.add(at, column) for at in rows]
        du = [v.load(corrections, place) for place in places]
        for r in reversed(range(ROWS)):
            dp = builder.fneg(builder.fmul(v.load(erase, places[r]), du[r]))
            v.store(dp, predicted, places[r])
            v.store(du[r], corrections, places[r])
            for earlier in range(r):
                at = builder.add(builder.mul(system_row, v.index(r)), v.index(earlier))
                du[earlier] = v.fma(v.load_spread(system, at), dp, du[earlier])


@routine("pipiii")
def transpose(
    v: Emitter,
    source: ir.Value,
    source_row: ir.Value,
    target: ir.Value,
    target_row: ir.Value,
    rows: ir.Value,
    columns: ir.Value,
) -> None:
    """target = sourceᵀ; both sizes are multiples of one vector."""
    builder, half = v.builder, v.lanes // 2
    mask = ir.VectorType(ir.IntType(32), v.lanes)
    low = ir.Constant(mask, [n // 2 + v.lanes * (n % 2) for n in range(v.lanes)])
    high = ir.Constant(mask, [half + n // 2 + v.lanes * (n % 2) for n in range(v.lanes)])
    with _loop(v, 0, rows, v.lanes) as row, _loop(v, 0, columns, v.lanes) as column:
        first = builder.add(builder.mul(row, source_row), column)
        lines = [
            v.load(source, builder.add(first, builder.mul(source_row, v.index(r))))
            for r in range(v.lanes)
        ]
        # Each perfect shuffle of the lines moves one bit of the row index into the column index.
        for _ in range(v.lanes.bit_length() - 1):
            lines = [
                builder.shuffle_vector(lines[r], lines[r + half], order)
                for r in range(half)
                for order in (low, high)
            ]
        first = builder.add(builder.mul(column, target_row), row)
        for r, line in enumerate(lines):
            v.store(line, target, builder.add(first, builder.mul(target_row, v.index(r))))


@device
def set_lower_product(a, a_row, b, b_row, c, c_row, size, depth, ones):
    """The lower triangle of c = a b, in whole tiles and vectors."""
    for row in range(0, size, ROWS):
        columns = (row + ROWS + PAD - 1) // PAD * PAD
        set_product(
            shift(a, row * a_row), a_row, 1, b, b_row,
            shift(c, row * c_row), c_row, ROWS, columns, depth, ones,
        )  # fmt: skip


@device
def add_lower_times(a, a_row, b, b_row, c, c_row, size, columns):
    """c += a b for a lower triangular a, whose tiles on the diagonal hold zeros above it."""
    for row in range(0, size, ROWS):
        add_product(
            shift(a, row * a_row), a_row, 1, b, b_row,
            shift(c, row * c_row), c_row, ROWS, columns, row + ROWS, 1,
        )  # fmt: skip


@device
def add_upper_times(a, a_row, b, b_row, c, c_row, size, columns):
    """c += aᵀ b for a lower triangular a, whose tiles on the diagonal hold zeros above it."""
    for row in range(0, size, ROWS):
        add_product(
            shift(a, row * a_row + row), 1, a_row, shift(b, row * b_row), b_row,
            shift(c, row * c_row), c_row, ROWS, columns, size - row, 1,
        )  # fmt: skip

"""ATPM's addresses in one pass: the destination d and the corrected query q' of every token.

c = sᵀb     d = s + ρ (b − c s)     a = d / ‖d‖     r = 1 − qᵀa     q' = q + λ r a
"""

from __future__ import annotations

import math

from fourfold.ops.cpu.kernel import dot, gather, padded, scatter
from fourfold.ops.cpu.norms import row_at, rows_of
from fourfold.ops.cpu.tiles import PAD
from fourfold.ops.cpu.vectors import (
    device,
    fma,
    lanes,
    load,
    multiply,
    pointer_like,
    shift,
    spread,
    store,
    zero,
)

ROWS_HELD = 7
"""Rows of scratch that the backward pass uses; the forward pass uses fewer."""


def addresses_scratch(S: int) -> int:
    """Numbers of scratch that one thread needs."""
    return ROWS_HELD * (S + PAD)


@device
def load_row(target, size, row, S):
    gather(row, S, S, 1, target, size, 1, size)


@device
def store_row(source, size, row, S):
    scatter(source, size, S, 1, row, S)


@device
def destination(s, b, rho, d, size):
    """Fill d; return c and 1 / ‖d‖, or 0 for a zero d: it has no direction."""
    c = dot(s, b, size)
    of_s, of_b = spread(s, 1 - rho * c), spread(s, rho)
    for j in range(0, size, lanes(s)):
        store(d, j, fma(of_s, load(s, j), multiply(of_b, load(b, j))))
    norm = math.sqrt(dot(d, d, size))
    return c, 1 / norm if norm > 0 else zero(s)


@device
def combine(target, x, of_x, y, of_y, size):
    """target = of_x x + of_y y."""
    x_factor, y_factor = spread(x, of_x), spread(x, of_y)
    for j in range(0, size, lanes(x)):
        store(target, j, fma(x_factor, load(x, j), multiply(y_factor, load(y, j))))


def addresses_worker(storage, number, arguments, worker):
    """q s b rho lam, recalled d; scratch; workers, B, T, H, S. All in one type."""
    at = 4 * 7
    scratch = pointer_like(number, arguments[at])
    rows = rows_of(arguments, at + 1, worker)
    S = rows.size
    size = padded(S)
    q = shift(scratch, worker * ROWS_HELD * size)
    s, b, d = shift(q, size), shift(q, 2 * size), shift(q, 3 * size)
    for position in range(rows.first, rows.last):
        for h in range(rows.H):
            load_row(q, size, row_at(number, arguments, 0, rows, position, h), S)
            load_row(s, size, row_at(number, arguments, 1, rows, position, h), S)
            load_row(b, size, row_at(number, arguments, 2, rows, position, h), S)
            rho = row_at(number, arguments, 3, rows, position, h)[0]
            lam = row_at(number, arguments, 4, rows, position, h)[0]
            _, scale = destination(s, b, rho, d, size)
            residual = 1 - dot(q, d, size) * scale
            combine(q, q, zero(q) + 1, d, lam * residual * scale, size)
            store_row(q, size, row_at(number, arguments, 5, rows, position, h), S)
            store_row(d, size, row_at(number, arguments, 6, rows, position, h), S)


def addresses_backward_worker(storage, number, arguments, worker):
    """q s b rho lam, their gradients, those of recalled and d; scratch and numbers as above."""
    at = 4 * 12
    scratch = pointer_like(number, arguments[at])
    rows = rows_of(arguments, at + 1, worker)
    S = rows.size
    size = padded(S)
    q = shift(scratch, worker * ROWS_HELD * size)
    s, b, d, g, dd, out = (
        shift(q, size), shift(q, 2 * size), shift(q, 3 * size), shift(q, 4 * size),
        shift(q, 5 * size), shift(q, 6 * size),
    )  # fmt: skip
    one = zero(number) + 1
    for position in range(rows.first, rows.last):
        for h in range(rows.H):
            load_row(q, size, row_at(number, arguments, 0, rows, position, h), S)
            load_row(s, size, row_at(number, arguments, 1, rows, position, h), S)
            load_row(b, size, row_at(number, arguments, 2, rows, position, h), S)
            rho = row_at(number, arguments, 3, rows, position, h)[0]
            lam = row_at(number, arguments, 4, rows, position, h)[0]
            load_row(g, size, row_at(number, arguments, 10, rows, position, h), S)
            load_row(dd, size, row_at(number, arguments, 11, rows, position, h), S)
            c, scale = destination(s, b, rho, d, size)

            # Through q' = q + λ r a, with a = d / ‖d‖.
            residual = 1 - dot(q, d, size) * scale
            along = dot(g, d, size) * scale
            row_at(number, arguments, 9, rows, position, h)[0] = residual * along
            combine(out, g, one, d, -lam * along * scale, size)
            store_row(out, size, row_at(number, arguments, 5, rows, position, h), S)
            combine(out, g, lam * residual, q, -lam * along, size)
            radial = dot(out, d, size) * scale
            combine(out, out, one, d, -radial * scale, size)
            combine(dd, dd, one, out, scale, size)

            # Through d = s + ρ (b − c s).
            dc = -rho * dot(dd, s, size)
            row_at(number, arguments, 8, rows, position, h)[0] = dot(dd, b, size) - c * dot(
                dd, s, size
            )
            combine(out, dd, 1 - rho * c, b, dc, size)
            store_row(out, size, row_at(number, arguments, 6, rows, position, h), S)
            combine(out, dd, rho, s, dc, size)
            store_row(out, size, row_at(number, arguments, 7, rows, position, h), S)

"""SwiGLU's product: silu(gate) ⊙ up, where one row holds both."""

from __future__ import annotations

from fourfold.ops.cpu.activation import sigmoid, silu_slope
from fourfold.ops.cpu.norms import row_at, rows_of
from fourfold.ops.cpu.vectors import (
    lanes,
    load_first,
    multiply,
    spread,
    store_first,
    zero,
)


def swiglu_worker(storage, number, arguments, worker):
    """x (B, T, 2 size), y (B, T, size); workers, B, T, 1, size."""
    rows = rows_of(arguments, 4 * 2, worker)
    size = rows.size
    one, nothing = spread(number, zero(number) + 1), spread(number, zero(number))
    for position in range(rows.first, rows.last):
        x = row_at(number, arguments, 0, rows, position, 0)
        y = row_at(number, arguments, 1, rows, position, 0)
        for j in range(0, size, lanes(number)):
            count = size - j
            gate, up = load_first(x, j, count), load_first(x, size + j, count)
            share = sigmoid(gate, one, nothing)
            store_first(y, j, multiply(multiply(gate, share), up), count)


def swiglu_backward_worker(storage, number, arguments, worker):
    """x (B, T, 2 size), dy (B, T, size), dx like x; workers, B, T, 1, size."""
    rows = rows_of(arguments, 4 * 3, worker)
    size = rows.size
    one, nothing = spread(number, zero(number) + 1), spread(number, zero(number))
    for position in range(rows.first, rows.last):
        x = row_at(number, arguments, 0, rows, position, 0)
        dy = row_at(number, arguments, 1, rows, position, 0)
        dx = row_at(number, arguments, 2, rows, position, 0)
        for j in range(0, size, lanes(number)):
            count = size - j
            gate, up = load_first(x, j, count), load_first(x, size + j, count)
            g, share = load_first(dy, j, count), sigmoid(gate, one, nothing)
            slope = silu_slope(gate, share, one)
            store_first(dx, j, multiply(multiply(g, up), slope), count)
            store_first(dx, size + j, multiply(g, multiply(gate, share)), count)

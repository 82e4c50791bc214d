"""SwiGLU's product: silu(gate) ⊙ up, where one row holds both."""

from __future__ import annotations

from fourfold.ops.cpu.activation import sigmoid, silu_slope
from fourfold.ops.cpu.norms import positions
from fourfold.ops.cpu.vectors import (
    lanes,
    load_first,
    multiply,
    spread,
    store_first,
    zero,
)
from fourfold.ops.cpu.workers import stream


def swiglu_worker(storage, number, arguments, worker):
    """x (B, T, 2 size), y (B, T, size); workers, B, T, size."""
    at = 4 * 2
    workers, B, T, size = arguments[at], arguments[at + 1], arguments[at + 2], arguments[at + 3]
    one, nothing = spread(number, zero(number) + 1), spread(number, zero(number))
    first, last = positions(B * T, workers, worker)
    for position in range(first, last):
        x = stream(number, arguments, 0, position // T, position % T, 0).start
        y = stream(number, arguments, 1, position // T, position % T, 0).start
        for j in range(0, size, lanes(number)):
            count = size - j
            gate, up = load_first(x, j, count), load_first(x, size + j, count)
            share = sigmoid(gate, one, nothing)
            store_first(y, j, multiply(multiply(gate, share), up), count)


def swiglu_backward_worker(storage, number, arguments, worker):
    """x (B, T, 2 size), dy (B, T, size), dx like x; workers, B, T, size."""
    at = 4 * 3
    workers, B, T, size = arguments[at], arguments[at + 1], arguments[at + 2], arguments[at + 3]
    one, nothing = spread(number, zero(number) + 1), spread(number, zero(number))
    first, last = positions(B * T, workers, worker)
    for position in range(first, last):
        x = stream(number, arguments, 0, position // T, position % T, 0).start
        dy = stream(number, arguments, 1, position // T, position % T, 0).start
        dx = stream(number, arguments, 2, position // T, position % T, 0).start
        for j in range(0, size, lanes(number)):
            count = size - j
            gate, up = load_first(x, j, count), load_first(x, size + j, count)
            g, share = load_first(dy, j, count), sigmoid(gate, one, nothing)
            slope = silu_slope(gate, share, one)
            store_first(dx, j, multiply(multiply(g, up), slope), count)
            store_first(dx, size + j, multiply(g, multiply(gate, share)), count)

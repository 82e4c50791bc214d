"""Normalised rows: unit vectors, and the root-mean-square norm with gain and gate.

Rows are (B, T, H, ·) heads with the last dimension contiguous; a gain's gradient is summed per
thread.
"""

from __future__ import annotations

import math
from collections import namedtuple

from fourfold.ops.cpu.activation import sigmoid, silu_slope
from fourfold.ops.cpu.vectors import (
    device,
    fma,
    lanes,
    load_first,
    multiply,
    pointer_like,
    shift,
    spread,
    store_first,
    subtract,
    total,
    zero,
)
from fourfold.ops.cpu.workers import stream


@device
def dot_rows(a, b, size):
    products = spread(a, zero(a))
    for j in range(0, size, lanes(a)):
        products = fma(load_first(a, j, size - j), load_first(b, j, size - j), products)
    return total(products)


@device
def positions(tokens, workers, worker):
    """The worker's share of all B · T tokens."""
    return tokens * worker // workers, tokens * (worker + 1) // workers


Rows = namedtuple("Rows", "first last T H size flag")
"""A worker's positions in B · T, the sizes, and what only some workers are told."""


@device
def rows_of(arguments, at, worker):
    """Read workers, B, T, H, size and perhaps a flag, from number ``at`` on."""
    numbers = shift(arguments, at)
    T = numbers[2]
    first, last = positions(numbers[1] * T, numbers[0], worker)
    return Rows(first, last, T, numbers[3], numbers[4], numbers[5])


@device
def row_at(like, arguments, tensor, rows, position, head):
    """Pointer to one row."""
    return stream(like, arguments, tensor, position // rows.T, position % rows.T, head).start


def unit_worker(storage, number, arguments, worker):
    """x y; settings (2,): scale, smallest norm; workers, B, T, H, size."""
    at = 4 * 2
    settings = pointer_like(number, arguments[at])
    rows = rows_of(arguments, at + 1, worker)
    size = rows.size
    for position in range(rows.first, rows.last):
        for h in range(rows.H):
            x = row_at(number, arguments, 0, rows, position, h)
            y = row_at(number, arguments, 1, rows, position, h)
            norm = max(math.sqrt(dot_rows(x, x, size)), settings[1])
            factor = spread(number, settings[0] / norm)
            for j in range(0, size, lanes(number)):
                store_first(y, j, multiply(factor, load_first(x, j, size - j)), size - j)


def unit_backward_worker(storage, number, arguments, worker):
    """x dy dx; settings and numbers as above."""
    at = 4 * 3
    settings = pointer_like(number, arguments[at])
    rows = rows_of(arguments, at + 1, worker)
    size = rows.size
    for position in range(rows.first, rows.last):
        for h in range(rows.H):
            x = row_at(number, arguments, 0, rows, position, h)
            dy = row_at(number, arguments, 1, rows, position, h)
            dx = row_at(number, arguments, 2, rows, position, h)
            norm = math.sqrt(dot_rows(x, x, size))
            along = zero(number)
            if norm > settings[1]:
                along = dot_rows(x, dy, size) / (norm * norm)
            factor = spread(number, settings[0] / max(norm, settings[1]))
            radial = spread(number, -along)
            for j in range(0, size, lanes(number)):
                count = size - j
                inner = fma(radial, load_first(x, j, count), load_first(dy, j, count))
                store_first(dx, j, multiply(factor, inner), count)


def rms_norm_worker(storage, number, arguments, worker):
    """x gate y; weight, settings (1,): epsilon; workers, B, T, H, size, whether gated."""
    at = 4 * 3
    weight, settings = (
        pointer_like(number, arguments[at]), pointer_like(number, arguments[at + 1])
    )  # fmt: skip
    rows = rows_of(arguments, at + 2, worker)
    one, nothing = spread(number, zero(number) + 1), spread(number, zero(number))
    size = rows.size
    for position in range(rows.first, rows.last):
        for h in range(rows.H):
            x = row_at(number, arguments, 0, rows, position, h)
            gate = row_at(number, arguments, 1, rows, position, h)
            y = row_at(number, arguments, 2, rows, position, h)
            scale = spread(number, 1 / math.sqrt(dot_rows(x, x, size) / size + settings[0]))
            for j in range(0, size, lanes(number)):
                count = size - j
                value = multiply(
                    multiply(scale, load_first(x, j, count)), load_first(weight, j, count)
                )
                if rows.flag:
                    g = load_first(gate, j, count)
                    value = multiply(value, multiply(g, sigmoid(g, one, nothing)))
                store_first(y, j, value, count)


def rms_norm_backward_worker(storage, number, arguments, worker):
    """x gate dy dx dgate; weight, settings, dweight (workers, size); numbers as above."""
    at = 4 * 5
    weight, settings = (
        pointer_like(number, arguments[at]), pointer_like(number, arguments[at + 1])
    )  # fmt: skip
    rows = rows_of(arguments, at + 3, worker)
    dweight = shift(pointer_like(number, arguments[at + 2]), worker * rows.size)
    one, nothing = spread(number, zero(number) + 1), spread(number, zero(number))
    size = rows.size
    for j in range(0, size, lanes(number)):
        store_first(dweight, j, nothing, size - j)
    for position in range(rows.first, rows.last):
        for h in range(rows.H):
            x = row_at(number, arguments, 0, rows, position, h)
            gate = row_at(number, arguments, 1, rows, position, h)
            dy = row_at(number, arguments, 2, rows, position, h)
            dx = row_at(number, arguments, 3, rows, position, h)
            dgate = row_at(number, arguments, 4, rows, position, h)
            scale = 1 / math.sqrt(dot_rows(x, x, size) / size + settings[0])
            scales = spread(number, scale)
            products = nothing
            for j in range(0, size, lanes(number)):
                count = size - j
                g = load_first(dy, j, count)
                normal = multiply(scales, load_first(x, j, count))
                w = load_first(weight, j, count)
                if rows.flag:
                    z = load_first(gate, j, count)
                    share = sigmoid(z, one, nothing)
                    slope = multiply(multiply(g, silu_slope(z, share, one)), multiply(normal, w))
                    store_first(dgate, j, slope, count)
                    g = multiply(g, multiply(z, share))
                store_first(dweight, j, fma(g, normal, load_first(dweight, j, count)), count)
                g = multiply(g, w)
                # What dx still lacks is the same for the whole row.
                store_first(dx, j, multiply(scales, g), count)
                products = fma(g, normal, products)
            along = spread(number, scale * total(products) / size)
            for j in range(0, size, lanes(number)):
                count = size - j
                normal = multiply(scales, load_first(x, j, count))
                rest = subtract(load_first(dx, j, count), multiply(along, normal))
                store_first(dx, j, rest, count)

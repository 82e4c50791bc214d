"""Normalised rows: unit vectors, and the root-mean-square norm with gain and gate.

Rows are (B, T, H, ·) heads with the last dimension contiguous; a gain's gradient is summed per
thread.
"""

from __future__ import annotations

import math

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


def unit_worker(storage, number, arguments, worker):
    """x y; settings (2,): scale, smallest norm; workers, B, T, H, size."""
    at = 4 * 2
    settings = pointer_like(number, arguments[at])
    workers, B, T, H, size = (
        arguments[at + 1], arguments[at + 2], arguments[at + 3], arguments[at + 4],
        arguments[at + 5],
    )  # fmt: skip
    first, last = positions(B * T, workers, worker)
    for position in range(first, last):
        for h in range(H):
            x = stream(number, arguments, 0, position // T, position % T, h).start
            y = stream(number, arguments, 1, position // T, position % T, h).start
            norm = max(math.sqrt(dot_rows(x, x, size)), settings[1])
            factor = spread(number, settings[0] / norm)
            for j in range(0, size, lanes(number)):
                store_first(y, j, multiply(factor, load_first(x, j, size - j)), size - j)


def unit_backward_worker(storage, number, arguments, worker):
    """x dy dx; settings and numbers as above."""
    at = 4 * 3
    settings = pointer_like(number, arguments[at])
    workers, B, T, H, size = (
        arguments[at + 1], arguments[at + 2], arguments[at + 3], arguments[at + 4],
        arguments[at + 5],
    )  # fmt: skip
    first, last = positions(B * T, workers, worker)
    for position in range(first, last):
        for h in range(H):
            x = stream(number, arguments, 0, position // T, position % T, h).start
            dy = stream(number, arguments, 1, position // T, position % T, h).start
            dx = stream(number, arguments, 2, position // T, position % T, h).start
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
    """x gate y; weight, settings (1,): epsilon; workers, B, T, H, size, gated."""
    at = 4 * 3
    weight, settings = (
        pointer_like(number, arguments[at]), pointer_like(number, arguments[at + 1])
    )  # fmt: skip
    workers, B, T, H, size = (
        arguments[at + 2], arguments[at + 3], arguments[at + 4], arguments[at + 5],
        arguments[at + 6],
    )  # fmt: skip
    gated = arguments[at + 7] != 0
    one, nothing = spread(number, zero(number) + 1), spread(number, zero(number))
    first, last = positions(B * T, workers, worker)
    for position in range(first, last):
        for h in range(H):
            x = stream(number, arguments, 0, position // T, position % T, h).start
            gate = stream(number, arguments, 1, position // T, position % T, h).start
            y = stream(number, arguments, 2, position // T, position % T, h).start
            scale = spread(number, 1 / math.sqrt(dot_rows(x, x, size) / size + settings[0]))
            for j in range(0, size, lanes(number)):
                count = size - j
                value = multiply(
                    multiply(scale, load_first(x, j, count)), load_first(weight, j, count)
                )
                if gated:
                    g = load_first(gate, j, count)
                    value = multiply(value, multiply(g, sigmoid(g, one, nothing)))
                store_first(y, j, value, count)


def rms_norm_backward_worker(storage, number, arguments, worker):
    """x gate dy dx dgate; weight, settings, dweight (workers, size); numbers as above."""
    at = 4 * 5
    weight, settings = (
        pointer_like(number, arguments[at]), pointer_like(number, arguments[at + 1])
    )  # fmt: skip
    workers, B, T, H, size = (
        arguments[at + 3], arguments[at + 4], arguments[at + 5], arguments[at + 6],
        arguments[at + 7],
    )  # fmt: skip
    dweight = shift(pointer_like(number, arguments[at + 2]), worker * size)
    gated = arguments[at + 8] != 0
    one, nothing = spread(number, zero(number) + 1), spread(number, zero(number))
    for j in range(0, size, lanes(number)):
        store_first(dweight, j, nothing, size - j)
    first, last = positions(B * T, workers, worker)
    for position in range(first, last):
        for h in range(H):
            x = stream(number, arguments, 0, position // T, position % T, h).start
            gate = stream(number, arguments, 1, position // T, position % T, h).start
            dy = stream(number, arguments, 2, position // T, position % T, h).start
            dx = stream(number, arguments, 3, position // T, position % T, h).start
            dgate = stream(number, arguments, 4, position // T, position % T, h).start
            scale = 1 / math.sqrt(dot_rows(x, x, size) / size + settings[0])
            scales = spread(number, scale)
            products = nothing
            for j in range(0, size, lanes(number)):
                count = size - j
                g = load_first(dy, j, count)
                normal = multiply(scales, load_first(x, j, count))
                w = load_first(weight, j, count)
                if gated:
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

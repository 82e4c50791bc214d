"""A short causal convolution with SiLU: y_t = silu(Σ_j w_j ⊙ x_{t−K+1+j}).

Channels are shared out to threads, so that each thread owns its filters' gradient. A sequence
begins with K − 1 rows of history, or with zeros.
"""

from __future__ import annotations

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
    zero,
)


@device
def share_of(number, channels, workers, worker):
    """The worker's first channel and the one after its last: whole vectors."""
    width = lanes(number)
    vectors = (channels + width - 1) // width
    first = vectors * worker // workers * width
    last = vectors * (worker + 1) // workers * width
    return first, min(last, channels)


@device
def input_row(x, x_token, history, channels, K, t):
    """Pointer to the row of token t, which for t < 0 stands in the history."""
    if t < 0:
        return shift(history, (K - 1 + t) * channels)
    return shift(x, t * x_token)


@device
def convolved(x, x_token, history, has_history, weight, channels, K, t, c, count):
    """Σ_j w_j ⊙ x_{t−K+1+j} for a vector of channels."""
    total = spread(weight, zero(weight))
    for j in range(K):
        source = t - K + 1 + j
        if source >= 0 or has_history:
            row = input_row(x, x_token, history, channels, K, source)
            factor = load_first(weight, j * channels + c, count)
            total = fma(factor, load_first(row, c, count), total)
    return total


def convolution_worker(storage, number, arguments, worker):
    """x y; weight (K, channels), history (N, K − 1, channels), sequences; workers and sizes."""
    at = 4 * 2
    x_start, x_row, x_token = arguments[0], arguments[1], arguments[2]
    y_start, y_row, y_token = arguments[4], arguments[5], arguments[6]
    weight, all_history = (
        pointer_like(number, arguments[at]), pointer_like(number, arguments[at + 1])
    )  # fmt: skip
    sequences = pointer_like(arguments, arguments[at + 2])
    workers, N, channels, K = (
        arguments[at + 3], arguments[at + 4], arguments[at + 5], arguments[at + 6]
    )  # fmt: skip
    has_history, activate = arguments[at + 7] != 0, arguments[at + 8] != 0
    first, last = share_of(number, channels, workers, worker)
    one, nothing = spread(number, zero(number) + 1), spread(number, zero(number))
    for n in range(N):
        sequence = shift(sequences, 5 * n)
        x = shift(pointer_like(number, x_start), sequence[0] * x_row + sequence[1] * x_token)
        y = shift(pointer_like(number, y_start), sequence[0] * y_row + sequence[1] * y_token)
        history = shift(all_history, sequence[4] * (K - 1) * channels)
        for t in range(sequence[2]):
            for c in range(first, last, lanes(number)):
                value = convolved(
                    x, x_token, history, has_history, weight, channels, K, t, c, last - c
                )
                if activate:
                    value = multiply(value, sigmoid(value, one, nothing))
                store_first(y, t * y_token + c, value, last - c)


def convolution_backward_worker(storage, number, arguments, worker):
    """x dy dx; weight, history, dweight, dhistory, sequences, scratch; workers and sizes.

    ``scratch`` holds K rows of channels: the last K gradients before the activation.
    """
    at = 4 * 3
    x_start, x_row, x_token = arguments[0], arguments[1], arguments[2]
    dy_start, dy_row, dy_token = arguments[4], arguments[5], arguments[6]
    dx_start, dx_row, dx_token = arguments[8], arguments[9], arguments[10]
    weight, all_history = (
        pointer_like(number, arguments[at]), pointer_like(number, arguments[at + 1])
    )  # fmt: skip
    dweight, all_dhistory = (
        pointer_like(number, arguments[at + 2]), pointer_like(number, arguments[at + 3])
    )  # fmt: skip
    sequences = pointer_like(arguments, arguments[at + 4])
    ring = pointer_like(number, arguments[at + 5])
    workers, N, channels, K = (
        arguments[at + 6], arguments[at + 7], arguments[at + 8], arguments[at + 9]
    )  # fmt: skip
    has_history, activate = arguments[at + 10] != 0, arguments[at + 11] != 0
    first, last = share_of(number, channels, workers, worker)
    one, nothing = spread(number, zero(number) + 1), spread(number, zero(number))
    for j in range(K):
        for c in range(first, last, lanes(number)):
            store_first(dweight, j * channels + c, nothing, last - c)
    for n in range(N):
        sequence = shift(sequences, 5 * n)
        row, start, tokens = sequence[0], sequence[1], sequence[2]
        x = shift(pointer_like(number, x_start), row * x_row + start * x_token)
        dy = shift(pointer_like(number, dy_start), row * dy_row + start * dy_token)
        dx = shift(pointer_like(number, dx_start), row * dx_row + start * dx_token)
        history = shift(all_history, sequence[4] * (K - 1) * channels)
        dhistory = shift(all_dhistory, sequence[4] * (K - 1) * channels)
        for j in range(K):
            for c in range(first, last, lanes(number)):
                store_first(ring, j * channels + c, nothing, last - c)
        for t in range(tokens - 1, -K if has_history else -1, -1):
            own = shift(ring, (t + K) % K * channels)
            for c in range(first, last, lanes(number)):
                count = last - c
                g = nothing
                if t >= 0:
                    g = load_first(dy, t * dy_token + c, count)
                    if activate:
                        value = convolved(
                            x, x_token, history, has_history, weight, channels, K, t, c, count
                        )
                        share = sigmoid(value, one, nothing)
                        g = multiply(g, silu_slope(value, share, one))
                store_first(own, c, g, count)
                into = nothing
                for j in range(K):
                    # x_t has gone through filter j into token t + K − 1 − j.
                    later = load_first(ring, (t + 2 * K - 1 - j) % K * channels + c, count)
                    into = fma(load_first(weight, j * channels + c, count), later, into)
                    source = t - K + 1 + j
                    if t >= 0 and (source >= 0 or has_history):
                        seen = input_row(x, x_token, history, channels, K, source)
                        place = j * channels + c
                        old = load_first(dweight, place, count)
                        store_first(
                            dweight, place, fma(g, load_first(seen, c, count), old), count
                        )
                store_first(input_row(dx, dx_token, dhistory, channels, K, t), c, into, count)

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
def first_window(x, x_token, history, has_history, channels, K, t, first, last, window):
    """Copy the K rows up to token t < K − 1, which reach before the sequence, side by side."""
    nothing = spread(x, zero(x))
    for j in range(K):
        source = t - K + 1 + j
        for c in range(first, last, lanes(x)):
            row = nothing
            if source >= 0:
                row = load_first(x, source * x_token + c, last - c)
            elif has_history:
                row = load_first(history, (K - 1 + source) * channels + c, last - c)
            store_first(window, j * channels + c, row, last - c)


@device
def filtered(rows, row, weight, channels, K, c, count):
    """Σ_j w_j ⊙ rows_j for a vector of channels."""
    total = spread(weight, zero(weight))
    for j in range(K):
        factor = load_first(weight, j * channels + c, count)
        total = fma(factor, load_first(rows, j * row + c, count), total)
    return total


def convolution_worker(storage, number, arguments, worker):
    """x y; weight (K, channels), history (N, K − 1, channels), sequences, scratch (K, channels)."""
    at = 4 * 2
    x_start, x_row, x_token = arguments[0], arguments[1], arguments[2]
    y_start, y_row, y_token = arguments[4], arguments[5], arguments[6]
    weight, all_history = (
        pointer_like(number, arguments[at]), pointer_like(number, arguments[at + 1])
    )  # fmt: skip
    sequences = pointer_like(arguments, arguments[at + 2])
    window = pointer_like(number, arguments[at + 3])
    workers, N, channels, K = (
        arguments[at + 4], arguments[at + 5], arguments[at + 6], arguments[at + 7]
    )  # fmt: skip
    has_history = arguments[at + 8] != 0
    first, last = share_of(number, channels, workers, worker)
    one, nothing = spread(number, zero(number) + 1), spread(number, zero(number))
    for n in range(N):
        sequence = shift(sequences, 5 * n)
        x = shift(pointer_like(number, x_start), sequence[0] * x_row + sequence[1] * x_token)
        y = shift(pointer_like(number, y_start), sequence[0] * y_row + sequence[1] * y_token)
        history = shift(all_history, sequence[4] * (K - 1) * channels)
        for t in range(sequence[2]):
            rows, row = shift(x, (t - K + 1) * x_token), x_token
            if t < K - 1:
                first_window(x, x_token, history, has_history, channels, K, t, first, last, window)
                rows, row = window, channels
            for c in range(first, last, lanes(number)):
                value = filtered(rows, row, weight, channels, K, c, last - c)
                value = multiply(value, sigmoid(value, one, nothing))
                store_first(y, t * y_token + c, value, last - c)


def convolution_backward_worker(storage, number, arguments, worker):
    """x dy dx; weight, history, sequences, scratch, dweight, dhistory; numbers as above."""
    at = 4 * 3
    x_start, x_row, x_token = arguments[0], arguments[1], arguments[2]
    dy_start, dy_row, dy_token = arguments[4], arguments[5], arguments[6]
    dx_start, dx_row, dx_token = arguments[8], arguments[9], arguments[10]
    weight, all_history = (
        pointer_like(number, arguments[at]), pointer_like(number, arguments[at + 1])
    )  # fmt: skip
    sequences = pointer_like(arguments, arguments[at + 2])
    window = pointer_like(number, arguments[at + 3])
    dweight, all_dhistory = (
        pointer_like(number, arguments[at + 4]), pointer_like(number, arguments[at + 5])
    )  # fmt: skip
    workers, N, channels, K = (
        arguments[at + 6], arguments[at + 7], arguments[at + 8], arguments[at + 9]
    )  # fmt: skip
    has_history = arguments[at + 10] != 0
    first, last = share_of(number, channels, workers, worker)
    one, nothing = spread(number, zero(number) + 1), spread(number, zero(number))
    for j in range(K):
        for c in range(first, last, lanes(number)):
            store_first(dweight, j * channels + c, nothing, last - c)
    for n in range(N):
        sequence = shift(sequences, 5 * n)
        tokens = sequence[2]
        x = shift(pointer_like(number, x_start), sequence[0] * x_row + sequence[1] * x_token)
        dy = shift(pointer_like(number, dy_start), sequence[0] * dy_row + sequence[1] * dy_token)
        dx = shift(pointer_like(number, dx_start), sequence[0] * dx_row + sequence[1] * dx_token)
        history = shift(all_history, sequence[4] * (K - 1) * channels)
        dhistory = shift(all_dhistory, sequence[4] * (K - 1) * channels)

        # First the gradient before the activation, which waits in dx, and that of the filters.
        for t in range(tokens):
            rows, row = shift(x, (t - K + 1) * x_token), x_token
            if t < K - 1:
                first_window(x, x_token, history, has_history, channels, K, t, first, last, window)
                rows, row = window, channels
            for c in range(first, last, lanes(number)):
                count = last - c
                value = filtered(rows, row, weight, channels, K, c, count)
                slope = silu_slope(value, sigmoid(value, one, nothing), one)
                g = multiply(load_first(dy, t * dy_token + c, count), slope)
                store_first(dx, t * dx_token + c, g, count)
                for j in range(K):
                    place = j * channels + c
                    total = load_first(dweight, place, count)
                    total = fma(g, load_first(rows, j * row + c, count), total)
                    store_first(dweight, place, total, count)

        # Then through the filters: x_t reached token t + K − 1 − j by filter j. Ascending, each
        # row is read for the last time when it is overwritten.
        for t in range(1 - K if has_history else 0, tokens):
            target, target_row = (
                (dx, t * dx_token) if t >= 0 else (dhistory, (t + K - 1) * channels)
            )
            for c in range(first, last, lanes(number)):
                count = last - c
                into = nothing
                for j in range(max(0, t + K - tokens), K - max(0, -t)):
                    later = load_first(dx, (t + K - 1 - j) * dx_token + c, count)
                    into = fma(load_first(weight, j * channels + c, count), later, into)
                store_first(target, target_row + c, into, count)

"""The cross-entropy of rows of logits, with the softmax never stored."""

from __future__ import annotations

import math

from fourfold.ops.cpu.norms import positions
from fourfold.ops.cpu.vectors import (
    add,
    below,
    device,
    exp,
    lanes,
    largest,
    load_first,
    maximum,
    multiply,
    pointer_like,
    shift,
    spread,
    store_first,
    subtract,
    total,
    zero,
)


@device
def log_partition(row, size):
    """log Σ eˣ, with the largest x taken out."""
    top = row[0]
    if size < lanes(row):
        for j in range(1, size):
            top = max(top, row[j])
    else:
        highest = load_first(row, size - lanes(row), size)
        for j in range(0, size - lanes(row), lanes(row)):
            highest = maximum(highest, load_first(row, j, size))
        top = largest(highest)
    tops, sums = spread(row, top), spread(row, zero(row))
    for j in range(0, size, lanes(row)):
        shifted = exp(subtract(load_first(row, j, size - j), tops))
        sums = add(sums, below(shifted, size - j))
    return top + math.log(total(sums))


def cross_entropy_worker(storage, number, arguments, worker):
    """logits (rows, size), labels, losses, partitions (rows,); workers and sizes."""
    logits = pointer_like(number, arguments[0])
    labels = pointer_like(arguments, arguments[1])
    losses = pointer_like(number, arguments[2])
    partitions = pointer_like(number, arguments[3])
    workers, rows, size, ignored = arguments[4], arguments[5], arguments[6], arguments[7]
    first, last = positions(rows, workers, worker)
    for i in range(first, last):
        losses[i] = 0
        if labels[i] != ignored:
            row = shift(logits, i * size)
            partitions[i] = log_partition(row, size)
            losses[i] = partitions[i] - row[labels[i]]


def cross_entropy_backward_worker(storage, number, arguments, worker):
    """logits, labels, partitions, gradient of the sum (1,), dlogits; workers and sizes."""
    logits = pointer_like(number, arguments[0])
    labels = pointer_like(arguments, arguments[1])
    partitions = pointer_like(number, arguments[2])
    gradient = pointer_like(number, arguments[3])
    dlogits = pointer_like(number, arguments[4])
    workers, rows, size, ignored = arguments[5], arguments[6], arguments[7], arguments[8]
    first, last = positions(rows, workers, worker)
    for i in range(first, last):
        row, drow = shift(logits, i * size), shift(dlogits, i * size)
        scale, partition = zero(number), zero(number)
        if labels[i] != ignored:
            scale, partition = gradient[0], partitions[i]
        scales, partitions_i = spread(number, scale), spread(number, partition)
        for j in range(0, size, lanes(number)):
            value = spread(number, zero(number))
            if labels[i] != ignored:
                shifted = subtract(load_first(row, j, size - j), partitions_i)
                value = multiply(scales, exp(shifted))
            store_first(drow, j, value, size - j)
        if labels[i] != ignored:
            drow[labels[i]] -= scale

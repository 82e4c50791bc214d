"""One token for every head: the state is read twice and written once, nothing else is stored."""

from __future__ import annotations

import math

from fourfold.ops.cpu.kernel import clear, padded, scatter
from fourfold.ops.cpu.vectors import (
    device,
    fma,
    lanes,
    load,
    load_first,
    multiply,
    pointer_like,
    read,
    shift,
    spread,
    store,
    store_first,
)
from fourfold.ops.cpu.workers import head_inputs, stream


@device
def step_head(x, edges, blocks, before, after, y, S, D, scratch):
    """E' = α E + d (ω_w e − ω_e α Eᵀs)ᵀ and y = E'ᵀq.

    Args:
        x: Inputs of the token.
        before, after: pointers to (S, D), contiguous.
        y: Stream to write.
        scratch: room for two padded rows of D.
    """
    width = lanes(scratch)
    alpha = math.exp(x.log_alpha.start[0])
    correction, output = scratch, shift(scratch, padded(D))
    clear(scratch, 2 * padded(D), 0, 1, 2 * padded(D))
    for k in range(S):
        factor = spread(scratch, alpha * read(x.s.start, k))
        for j in range(0, D, width):
            row = load_first(before, k * D + j, D - j)
            store(correction, j, fma(factor, row, load(correction, j)))
    for block in range(blocks):
        erase, weight = x.erase.start[block], x.write.start[block]
        for j in range(edges[block], edges[block + 1]):
            correction[j] = weight * read(x.e.start, j) - erase * correction[j]
    retained = spread(scratch, alpha)
    for k in range(S):
        place = spread(scratch, read(x.d.start, k))
        query = spread(scratch, read(x.q.start, k))
        for j in range(0, D, width):
            old = load_first(before, k * D + j, D - j)
            row = fma(place, load(correction, j), multiply(retained, old))
            store_first(after, k * D + j, row, D - j)
            store(output, j, fma(query, row, load(output, j)))
    scatter(output, 0, D, 1, y.start, 0)


def step_worker(storage, number, arguments, worker):
    """q s d e log_alpha erase write y; before after edges sequences scratch; numbers.

    ``before`` and ``after`` are (N, H, S, D); ``sequences`` (N, 5) as for the other workers.
    """
    at = 4 * 8
    before, after = pointer_like(number, arguments[at]), pointer_like(number, arguments[at + 1])
    edges = pointer_like(arguments, arguments[at + 2])
    sequences = pointer_like(arguments, arguments[at + 3])
    workers, size, G, N, H, S, D = (
        arguments[at + 5], arguments[at + 6], arguments[at + 7], arguments[at + 8],
        arguments[at + 9], arguments[at + 10], arguments[at + 11],
    )  # fmt: skip
    scratch = shift(pointer_like(number, arguments[at + 4]), worker * size)
    for task in range(worker, N * H, workers):
        sequence, h = shift(sequences, task // H * 5), task % H
        matrix = (sequence[4] * H + h) * S * D
        if sequence[2] == 0:
            for j in range(0, S * D, lanes(before)):
                row = load_first(before, matrix + j, S * D - j)
                store_first(after, matrix + j, row, S * D - j)
            continue
        step_head(
            head_inputs(storage, number, arguments, 0, sequence[0], sequence[1], h), edges, G,
            shift(before, matrix), shift(after, matrix),
            stream(storage, arguments, 7, sequence[0], sequence[1], h), S, D, scratch,
        )  # fmt: skip

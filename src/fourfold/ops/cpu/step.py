"""One token for every head: the state is read twice and written once, nothing else is stored."""

from __future__ import annotations

import math

from fourfold.ops.cpu.kernel import scatter
from fourfold.ops.cpu.vectors import (
    device,
    fma,
    lanes,
    load,
    multiply,
    pointer_like,
    read,
    shift,
    spread,
    store,
    write,

)
from fourfold.ops.cpu.workers import head_inputs, stream


@device
def step_head(x, edges, blocks, before, after, y, S, D, scratch):
    """E' = α E + d (ω_w e − ω_e α Eᵀs)ᵀ and y = E'ᵀq.

    Args:
        x: Inputs of the token.
        before, after: pointers to (S, D), contiguous.
        y: Stream to write.
        scratch: 2 D numbers.
    """
    width = lanes(scratch)
    whole = D // width * width
    alpha = math.exp(x.log_alpha.start[0])
    correction, output = scratch, shift(scratch, D)
    for j in range(D):
        correction[j] = 0
        output[j] = 0
    for k in range(S):
        row, factor = shift(before, k * D), alpha * read(x.s.start, k)
        factors = spread(scratch, factor)
        for j in range(0, whole, width):
            store(correction, j, fma(factors, load(row, j), load(correction, j)))
        for j in range(whole, D):
            correction[j] += factor * row[j]
    for block in range(blocks):
        erase, weight = x.erase.start[block], x.write.start[block]
        for j in range(edges[block], edges[block + 1]):
            correction[j] = weight * read(x.e.start, j) - erase * correction[j]
    retained = spread(scratch, alpha)
    for k in range(S):
        old, new = shift(before, k * D), shift(after, k * D)
        place, query = read(x.d.start, k), read(x.q.start, k)
        places, queries = spread(scratch, place), spread(scratch, query)
        for j in range(0, whole, width):
            row = fma(places, load(correction, j), multiply(retained, load(old, j)))
            store(new, j, row)
            store(output, j, fma(queries, row, load(output, j)))
        for j in range(whole, D):
            new[j] = alpha * old[j] + place * correction[j]
            output[j] += query * new[j]
    for j in range(D):
        write(y.start, j, output[j])


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
            scatter(shift(before, matrix), D, D, S, shift(after, matrix), D)
            continue
        step_head(
            head_inputs(storage, number, arguments, 0, sequence[0], sequence[1], h), edges, G,
            shift(before, matrix), shift(after, matrix),
            stream(storage, arguments, 7, sequence[0], sequence[1], h), S, D, scratch,
        )  # fmt: skip

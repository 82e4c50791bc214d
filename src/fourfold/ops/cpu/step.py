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
    read,
    shift,
    spread,
    store,
    store_first,
)
from fourfold.ops.cpu.workers import head_inputs, job_of, stream, task_of


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
    """q s d e log_alpha erase write y; ``state`` before and ``other`` after, both (N, H, S, D)."""
    job = job_of(number, arguments, 8, worker)
    for index in range(worker, job.tasks, job.workers):
        t = task_of(job, index, 1)
        before, after = shift(job.state, t.matrix), shift(job.other, t.matrix)
        if t.length == 0:
            for j in range(0, job.S * job.D, lanes(before)):
                count = job.S * job.D - j
                store_first(after, j, load_first(before, j, count), count)
            continue
        step_head(
            head_inputs(storage, number, arguments, 0, t.row, t.first, t.head),
            job.edges,
            job.blocks,
            before,
            after,
            stream(storage, arguments, 7, t.row, t.first, t.head),
            job.S,
            job.D,
            job.scratch,
        )

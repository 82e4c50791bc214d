"""What one thread does: its share of all sequences and heads.

A worker takes everything as one array of integers, so that one compiled function serves tensors
of any strides and the code that starts threads (``threads.py``) need not know the kernels. Tensors
come first, four numbers each: address, then the distances between rows, tokens and heads; the last
dimension is contiguous. ``kernel_arguments`` writes what the workers read.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fourfold.ops.cpu.kernel import (
    Inputs,
    Stream,
    backward_head,
    forward_head,
    sizes_of,
    take_backward,
    take_forward,
)
from fourfold.ops.cpu.vectors import device, distance, pointer_like, shift


def kernel_arguments(
    tensors: Sequence[Tensor], addresses: Sequence[int], numbers: Sequence[int]
) -> NDArray[np.int64]:
    """Addresses and strides of (B, T, H, ·) tensors, other addresses, and plain numbers."""
    values: list[int] = []
    for tensor in tensors:
        values += (tensor.data_ptr(), *tensor.stride()[:3])
    return np.array([*values, *addresses, *numbers], dtype=np.int64)


@device
def stream(like, arguments, tensor, row, first, head):
    """One head of a tensor, from token ``first`` of a row on."""
    at = 4 * tensor
    offset = row * arguments[at + 1] + first * arguments[at + 2] + head * arguments[at + 3]
    return Stream(shift(pointer_like(like, arguments[at]), offset), arguments[at + 2])


@device
def head_inputs(storage, number, arguments, tensor, row, first, head):
    """Seven tensors from number ``tensor`` on: the inputs, or the gradients of the inputs."""
    return Inputs(
        stream(storage, arguments, tensor, row, first, head),
        stream(storage, arguments, tensor + 1, row, first, head),
        stream(storage, arguments, tensor + 2, row, first, head),
        stream(storage, arguments, tensor + 3, row, first, head),
        stream(number, arguments, tensor + 4, row, first, head),
        stream(number, arguments, tensor + 5, row, first, head),
        stream(number, arguments, tensor + 6, row, first, head),
    )


def measure_worker(storage, number, arguments, worker):
    """(C, S, D, ·, ·): put the scratch sizes into the last two."""
    z = sizes_of(arguments[0], arguments[1], arguments[2])
    arguments[3] = distance(number, take_forward(number, z)[-1])
    arguments[4] = distance(number, take_backward(number, z)[-1])


Job = namedtuple("Job", "state other edges blocks sequences tasks H S D scratch workers flags")
"""What all workers are told beside their tensors; see ``job_of``."""

Task = namedtuple("Task", "row first length head chunk matrix")
"""One head of one sequence: where its tokens, its chunks' states and its own state lie."""


@device
def job_of(number, arguments, tensors, worker):
    """Read what follows the ``tensors``, as ``operator.py`` writes it.

    state and other: pointers to matrices. edges: (G + 1,) first columns of the blocks, and D.
    sequences: (N, 5), each one's row, first token, length, first chunk and place in ``state``.
    scratch: the worker's own. flags: what only some workers are told.
    """
    rest = shift(arguments, 4 * tensors)
    return Job(
        pointer_like(number, rest[0]),
        pointer_like(number, rest[1]),
        pointer_like(arguments, rest[2]),
        rest[7],
        pointer_like(arguments, rest[3]),
        rest[8] * rest[9],
        rest[9],
        rest[10],
        rest[11],
        shift(pointer_like(number, rest[4]), worker * rest[6]),
        rest[5],
        shift(rest, 12),
    )


@device
def task_of(job, task, C):
    """Number ``task`` of N H: sequence by sequence, in chunks of C tokens."""
    sequence, head = shift(job.sequences, task // job.H * 5), task % job.H
    chunks = (sequence[2] + C - 1) // C
    return Task(
        sequence[0],
        sequence[1],
        sequence[2],
        head,
        (sequence[3] * job.H + head * chunks) * job.S * job.D,
        (sequence[4] * job.H + head) * job.S * job.D,
    )


def forward_worker(storage, number, arguments, worker):
    """q s d e log_alpha erase write y predicted; flags C, has_state, keep.

    ``state`` (N, H, S, D) holds the initial state if ``has_state`` and becomes the final one;
    ``other`` (chunks · H, D, S) takes the transposed state before each chunk.
    """
    job = job_of(number, arguments, 9, worker)
    C, has_state, keep = job.flags[0], job.flags[1] != 0, job.flags[2] != 0
    for index in range(worker, job.tasks, job.workers):
        t = task_of(job, index, C)
        forward_head(
            head_inputs(storage, number, arguments, 0, t.row, t.first, t.head),
            job.edges,
            job.blocks,
            shift(job.state, t.matrix),
            has_state,
            stream(storage, arguments, 7, t.row, t.first, t.head),
            stream(number, arguments, 8, t.row, t.first, t.head),
            shift(job.other, t.chunk),
            keep,
            t.length,
            sizes_of(C, job.S, job.D),
            job.scratch,
        )


def backward_worker(storage, number, arguments, worker):
    """The inputs, their gradients, dy and predicted; flags C, has_state, has_dstate.

    ``state`` holds the final state's gradient if ``has_dstate`` and becomes the initial state's;
    ``other`` is what the forward pass put there.
    """
    job = job_of(number, arguments, 16, worker)
    C, has_state, has_dstate = job.flags[0], job.flags[1] != 0, job.flags[2] != 0
    for index in range(worker, job.tasks, job.workers):
        t = task_of(job, index, C)
        backward_head(
            head_inputs(storage, number, arguments, 0, t.row, t.first, t.head),
            job.edges,
            job.blocks,
            has_state,
            shift(job.state, t.matrix),
            has_dstate,
            stream(storage, arguments, 14, t.row, t.first, t.head),
            stream(number, arguments, 15, t.row, t.first, t.head),
            shift(job.other, t.chunk),
            head_inputs(storage, number, arguments, 7, t.row, t.first, t.head),
            t.length,
            sizes_of(C, job.S, job.D),
            job.scratch,
        )

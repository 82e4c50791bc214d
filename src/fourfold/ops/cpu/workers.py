"""What one thread does: its share of all sequences and heads.

A worker takes everything as one array of integers, so that one compiled function serves tensors
of any strides and the code that starts threads (``threads.py``) need not know the kernels. Tensors
come first, four numbers each: address, then the distances between rows, tokens and heads; the last
dimension is contiguous. ``kernel_arguments`` writes what the workers read.
"""

from __future__ import annotations

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


@device
def scratch_sizes(number, C, S, D):
    """Numbers of scratch that one thread needs, forward and backward."""
    z = sizes_of(C, S, D)
    forward, backward = take_forward(number, z), take_backward(number, z)
    return distance(number, forward[-1]), distance(number, backward[-1])


def measure_worker(storage, number, arguments, worker):
    """(C, S, D, ·, ·): put the scratch sizes into the last two."""
    forward, backward = scratch_sizes(number, arguments[0], arguments[1], arguments[2])
    arguments[3] = forward
    arguments[4] = backward


def forward_worker(storage, number, arguments, worker):
    """q s d e log_alpha erase write y predicted; state states edges sequences scratch; numbers.

    ``state`` (N, H, S, D) holds the initial state if ``has_state`` and becomes the final one;
    ``states`` (chunks · H, D, S) takes the transposed state before each chunk; ``edges`` (G + 1,)
    are the first columns of the blocks, and D; ``sequences`` (N, 5) are each one's row, first
    token, length, first chunk and place in ``state``; ``scratch`` is (workers, size). The numbers
    are named below.
    """
    at = 4 * 9
    state, states = pointer_like(number, arguments[at]), pointer_like(number, arguments[at + 1])
    edges = pointer_like(arguments, arguments[at + 2])
    sequences = pointer_like(arguments, arguments[at + 3])
    scratch = pointer_like(number, arguments[at + 4])
    workers, size, G, N, H = (
        arguments[at + 5], arguments[at + 6], arguments[at + 7], arguments[at + 8],
        arguments[at + 9],
    )  # fmt: skip
    S, D, C = arguments[at + 10], arguments[at + 11], arguments[at + 12]
    has_state, keep = arguments[at + 13] != 0, arguments[at + 14] != 0
    z = sizes_of(C, S, D)
    for task in range(worker, N * H, workers):
        sequence, h = shift(sequences, task // H * 5), task % H
        row, first, length = sequence[0], sequence[1], sequence[2]
        chunk = sequence[3] * H + h * ((length + C - 1) // C)
        place = (sequence[4] * H + h) * S * D
        forward_head(
            head_inputs(storage, number, arguments, 0, row, first, h), edges, G,
            shift(state, place), has_state, stream(storage, arguments, 7, row, first, h),
            stream(number, arguments, 8, row, first, h), shift(states, chunk * S * D),
            keep, length, z, shift(scratch, worker * size),
        )  # fmt: skip


def backward_worker(storage, number, arguments, worker):
    """As ``forward_worker``; tensors: the inputs, their gradients, dy and predicted.

    ``state`` holds the final state's gradient if ``has_dstate`` and becomes the initial state's.
    """
    at = 4 * 16
    dstate, states = pointer_like(number, arguments[at]), pointer_like(number, arguments[at + 1])
    edges = pointer_like(arguments, arguments[at + 2])
    sequences = pointer_like(arguments, arguments[at + 3])
    scratch = pointer_like(number, arguments[at + 4])
    workers, size, G, N, H = (
        arguments[at + 5], arguments[at + 6], arguments[at + 7], arguments[at + 8],
        arguments[at + 9],
    )  # fmt: skip
    S, D, C = arguments[at + 10], arguments[at + 11], arguments[at + 12]
    has_state, has_dstate = arguments[at + 13] != 0, arguments[at + 14] != 0
    z = sizes_of(C, S, D)
    for task in range(worker, N * H, workers):
        sequence, h = shift(sequences, task // H * 5), task % H
        row, first, length = sequence[0], sequence[1], sequence[2]
        chunk = sequence[3] * H + h * ((length + C - 1) // C)
        place = (sequence[4] * H + h) * S * D
        backward_head(
            head_inputs(storage, number, arguments, 0, row, first, h), edges, G, has_state,
            shift(dstate, place), has_dstate, stream(storage, arguments, 14, row, first, h),
            stream(number, arguments, 15, row, first, h), shift(states, chunk * S * D),
            head_inputs(storage, number, arguments, 7, row, first, h), length, z,
            shift(scratch, worker * size),
        )  # fmt: skip

"""The CPU kernels on tensors: what they are given, what is allocated for them, what comes back."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fourfold.ops.cpu import threads
from fourfold.ops.cpu.shapes import chunk_length, kept_shapes
from fourfold.ops.cpu.tiles import PAD
from fourfold.ops.cpu.workers import kernel_arguments

NAMES = {torch.float32: "float32", torch.float64: "float64", torch.bfloat16: "bfloat16"}


def forward(
    tensors: Sequence[Tensor],
    edges: Sequence[int],
    initial_state: Tensor | None,
    offsets: Tensor | None,
    keep: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Walk all heads forward.

    Args:
        tensors: q, s, d (B, T, H, S), e (B, T, H, D), all float32, float64 or bfloat16; log_alpha
            (B, T, H), erase and write (B, T, H, G), float32, or float64 if the first four are.
        edges: G + 1 offsets of the column blocks.
        initial_state: (N, H, S, D) in the type of log_alpha, or None for zeros.
        offsets: (N + 1,) offsets of packed sequences, or None.
        keep: keep what the backward pass needs.

    Returns:
        y (B, T, H, D), the final state (N, H, S, D), and what is kept.
    """
    e, log_alpha = tensors[3], tensors[4]
    batch, tokens, heads, columns = e.shape
    address = tensors[0].shape[-1]
    chunk = chunk_length(tokens, address, columns)
    sequences = sequence_table(offsets, batch, tokens, chunk)
    tensors = [row_major(x) for x in tensors]
    y = torch.empty_like(e, memory_format=torch.contiguous_format)
    kept = kept_shapes(tensors[0].shape, columns, offsets, keep)
    predicted, states = (log_alpha.new_empty(shape) for shape in kept)
    if sequences[:, 2].max(initial=0) <= 1 and not keep:
        shape = (len(sequences), heads, address, columns)
        before = log_alpha.new_zeros(shape) if initial_state is None else initial_state.contiguous()
        state = torch.empty_like(before)
        _run("step.step_worker", [*tensors, y], [before, state], edges, sequences, [])
        return y, state, predicted, states
    if keep and offsets is not None:  # more room than there are chunks
        states[int((-(-sequences[:, 2] // chunk)).sum()) :] = 0
    if initial_state is None:
        state = log_alpha.new_empty(len(sequences), heads, address, columns)
    else:
        state = initial_state.clone(memory_format=torch.contiguous_format)
    flags = [chunk, initial_state is not None, keep]
    # Never written without ``keep``, but it needs an address and strides.
    streams = [*tensors, y, predicted if keep else y]
    _run("workers.forward_worker", streams, [state, states], edges, sequences, flags)
    return y, state, predicted, states


def backward(
    tensors: Sequence[Tensor],
    edges: Sequence[int],
    has_state: bool,
    offsets: Tensor | None,
    predicted: Tensor,
    states: Tensor,
    dy: Tensor | None,
    dfinal: Tensor | None,
) -> list[Tensor]:
    """Gradients of the seven tensors and of the initial state; arguments as in ``forward``."""
    e, log_alpha = tensors[3], tensors[4]
    batch, tokens, heads, columns = e.shape
    address = tensors[0].shape[-1]
    chunk = chunk_length(tokens, address, columns)
    sequences = sequence_table(offsets, batch, tokens, chunk)
    tensors = [row_major(x) for x in tensors]
    dy = torch.zeros_like(e) if dy is None else row_major(dy)
    gradients = [torch.empty_like(x, memory_format=torch.contiguous_format) for x in tensors]
    if dfinal is None:
        dstate = log_alpha.new_empty(len(sequences), heads, address, columns)
    else:
        dstate = dfinal.clone(memory_format=torch.contiguous_format)
    flags = [chunk, has_state, dfinal is not None]
    streams = [*tensors, *gradients, dy, predicted]
    _run("workers.backward_worker", streams, [dstate, states], edges, sequences, flags)
    return [*gradients, dstate]


def row_major(x: Tensor) -> Tensor:
    """The tensor, copied if the numbers of a head do not lie side by side."""
    return x if x.ndim == 3 or x.stride(-1) == 1 or x.shape[-1] <= 1 else x.contiguous()


def _run(
    worker: str,
    streams: Sequence[Tensor],
    matrices: Sequence[Tensor],
    edges: Sequence[int],
    sequences: NDArray[np.int64],
    flags: Sequence[int],
) -> None:
    """Call a worker with what all of them take, then ``flags``."""
    e, state = streams[3], matrices[0]
    batch, tokens, heads, _ = e.shape
    count, _, address, columns = state.shape
    work = batch * tokens * heads * address * columns
    workers = threads.worker_count(count * heads, work)
    size = 2 * (columns + PAD)
    if flags:
        forward, backward = _scratch_sizes(flags[0], address, columns, NAMES[state.dtype])
        size = forward if worker == "workers.forward_worker" else backward
    scratch = state.new_empty(workers, size)
    bounds = np.array(edges, dtype=np.int64)
    addresses = [x.data_ptr() for x in matrices] + [bounds.ctypes.data, sequences.ctypes.data]
    numbers = [workers, size, len(edges) - 1, count, heads, address, columns, *flags]
    arguments = kernel_arguments(streams, [*addresses, scratch.data_ptr()], numbers)
    threads.run(worker, NAMES[e.dtype], NAMES[state.dtype], arguments, workers)


@cache
def _scratch_sizes(chunk: int, address: int, columns: int, number: str) -> tuple[int, int]:
    arguments = np.array([chunk, address, columns, 0, 0], dtype=np.int64)
    threads.run("workers.measure_worker", number, number, arguments, 1)
    return int(arguments[3]), int(arguments[4])


def sequence_table(
    offsets: Tensor | None, batch: int, tokens: int, chunk: int
) -> NDArray[np.int64]:
    """(N, 5): row, first token, length, first chunk and number of each sequence, longest first."""
    if offsets is None:
        return _equal_sequences(batch, tokens, chunk)
    starts = offsets.numpy().astype(np.int64)
    lengths = np.diff(starts)
    chunks = -(-lengths // chunk)
    table = np.zeros((len(lengths), 5), dtype=np.int64)
    table[:, 1], table[:, 2], table[:, 3] = starts[:-1], lengths, np.cumsum(chunks) - chunks
    table[:, 4] = np.arange(len(lengths))
    # Dealt out in turn, the longest first, they keep the threads about equally busy.
    return np.ascontiguousarray(table[np.argsort(-lengths, kind="stable")])


@cache
def _equal_sequences(batch: int, tokens: int, chunk: int) -> NDArray[np.int64]:
    table = np.zeros((batch, 5), dtype=np.int64)
    table[:, 0] = table[:, 4] = np.arange(batch)
    table[:, 2], table[:, 3] = tokens, np.arange(batch) * -(-tokens // chunk)
    table.setflags(write=False)
    return table

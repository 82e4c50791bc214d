"""The kernels around a memory on tensors: convolution, norms, gates.

Inputs are all float32 or all float64. Their last dimension is made contiguous if it is not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from fourfold.ops.cpu import threads
from fourfold.ops.cpu.operator import NAMES, row_major, sequence_table
from fourfold.ops.cpu.workers import kernel_arguments

_COST = 16
"""Operations for each number that passes through, about."""


def unit(x: Tensor, scale: float, eps: float) -> Tensor:
    """(B, T, H, size) -> the same, rows of norm ``scale``."""
    x = row_major(x)
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    _over_rows("norms.unit_worker", [x, y], [x.new_tensor([scale, eps])], x.shape)
    return y


def unit_backward(x: Tensor, dy: Tensor, scale: float, eps: float) -> Tensor:
    x, dy = row_major(x), row_major(dy)
    dx = torch.empty_like(x, memory_format=torch.contiguous_format)
    _over_rows("norms.unit_backward_worker", [x, dy, dx], [x.new_tensor([scale, eps])], x.shape)
    return dx


def rms_norm(x: Tensor, weight: Tensor, eps: float, gate: Tensor | None) -> Tensor:
    """(B, T, size) or (B, T, H, size) -> the same."""
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    streams = [_by_head(v) for v in (x, x if gate is None else gate, y)]
    extra = [weight.contiguous(), x.new_tensor([eps])]
    _over_rows("norms.rms_norm_worker", streams, extra, streams[0].shape, [gate is not None])
    return y


def rms_norm_backward(
    x: Tensor, weight: Tensor, eps: float, gate: Tensor | None, dy: Tensor
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Gradients of x, weight and gate."""
    dx = torch.empty_like(x, memory_format=torch.contiguous_format)
    dgate = None if gate is None else torch.empty_like(dx)
    pairs = (x, x if gate is None else gate, dy, dx, dx if dgate is None else dgate)
    streams = [_by_head(v) for v in pairs]
    parts = x.new_empty(torch.get_num_threads(), weight.shape[0])
    extra = [weight.contiguous(), x.new_tensor([eps]), parts]
    flags = [gate is not None]
    used = _over_rows(
        "norms.rms_norm_backward_worker", streams, extra, streams[0].shape, flags
    )
    return dx, parts[:used].sum(0), dgate


def swiglu(x: Tensor) -> Tensor:
    """(B, T, 2 size) -> (B, T, size)."""
    x = row_major(x)
    y = x.new_empty(*x.shape[:-1], x.shape[-1] // 2)
    _over_rows("gates.swiglu_worker", [x, y], [], y.shape)
    return y


def swiglu_backward(x: Tensor, dy: Tensor) -> Tensor:
    x, dy = row_major(x), row_major(dy)
    dx = torch.empty_like(x, memory_format=torch.contiguous_format)
    _over_rows("gates.swiglu_backward_worker", [x, dy, dx], [], dy.shape)
    return dx


def convolution(
    x: Tensor, weight: Tensor, history: Tensor | None, offsets: Tensor | None
) -> Tensor:
    """(B, T, channels) -> the same."""
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    _convolve("convolution.convolution_worker", [x, y], [weight], history, [], offsets)
    return y


def convolution_backward(
    x: Tensor, weight: Tensor, history: Tensor | None, offsets: Tensor | None, dy: Tensor
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Gradients of x, weight and history."""
    dx = torch.empty_like(x, memory_format=torch.contiguous_format)
    dweight = torch.empty_like(weight)
    dhistory = None if history is None else torch.empty_like(history)
    scratch = torch.empty_like(weight)
    _convolve(
        "convolution.convolution_backward_worker",
        [x, dy, dx],
        [weight],
        history,
        [dweight, dweight if dhistory is None else dhistory],
        offsets,
        [scratch],
    )
    return dx, dweight, dhistory


def _convolve(
    worker: str,
    streams: Sequence[Tensor],
    weight: Sequence[Tensor],
    history: Tensor | None,
    gradients: Sequence[Tensor],
    offsets: Tensor | None,
    scratch: Sequence[Tensor] = (),
) -> None:
    streams = [row_major(x) for x in streams]
    batch, tokens, channels = streams[0].shape
    filters = weight[0].contiguous()
    before = filters if history is None else history.contiguous()
    table = sequence_table(offsets, batch, tokens, 1)
    work = _COST * batch * tokens * channels
    workers = threads.worker_count(-(-channels // 16), work)
    addresses = [x.data_ptr() for x in (filters, before, *gradients)]
    addresses += [table.ctypes.data, *(x.data_ptr() for x in scratch)]
    numbers = [workers, len(table), channels, filters.shape[0], history is not None, True]
    _run(worker, streams, addresses, numbers, workers)


def _over_rows(
    worker: str,
    streams: Sequence[Tensor],
    extra: Sequence[Tensor],
    shape: Sequence[int],
    flags: Sequence[int] = (),
) -> int:
    """Call a worker that goes through all tokens; return on how many threads."""
    tokens = shape[0] * shape[1]
    workers = threads.worker_count(tokens, _COST * int(np.prod(shape)))
    addresses = [x.data_ptr() for x in extra]
    _run(worker, streams, addresses, [workers, *shape, *flags], workers)
    return workers


def _run(
    worker: str,
    streams: Sequence[Tensor],
    addresses: Sequence[int],
    numbers: Sequence[int],
    workers: int,
) -> None:
    name = NAMES[streams[0].dtype]
    threads.run(worker, name, name, kernel_arguments(streams, addresses, numbers), workers)


def _by_head(x: Tensor) -> Tensor:
    """(B, T, size) or (B, T, H, size) -> (B, T, H, size), rows contiguous."""
    return row_major(x if x.ndim == 4 else x[:, :, None])

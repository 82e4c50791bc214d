"""The kernels around a memory on tensors: addresses, convolution, norms, gates, proposal, loss.

Each function returns its output and what is kept for the backward pass beside the inputs; its
``_backward`` takes inputs, what was kept, settings and the output's gradient, and returns one
gradient for each input. Inputs are all float32 or all float64, and copied if their last dimension
is not contiguous.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import torch
from torch import Tensor

from fourfold.ops.cpu import threads
from fourfold.ops.cpu.addresses import addresses_scratch
from fourfold.ops.cpu.operator import NAMES, row_major, sequence_table
from fourfold.ops.cpu.tiles import PAD
from fourfold.ops.cpu.workers import kernel_arguments

_COST = 16
"""Operations for each number that passes through, about."""


def unit(x: Tensor, scale: float, eps: float) -> tuple[Tensor, ...]:
    """(B, T, H, size) -> the same, rows of norm ``scale``."""
    x = row_major(x)
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    _over_rows("norms.unit_worker", [x, y], [x.new_tensor([scale, eps])], x.shape)
    return (y,)


def unit_backward(x: Tensor, scale: float, eps: float, dy: Tensor) -> tuple[Tensor, ...]:
    x, dy = row_major(x), row_major(dy)
    dx = torch.empty_like(x, memory_format=torch.contiguous_format)
    _over_rows("norms.unit_backward_worker", [x, dy, dx], [x.new_tensor([scale, eps])], x.shape)
    return (dx,)


def rms_norm(x: Tensor, weight: Tensor, gate: Tensor | None, eps: float) -> tuple[Tensor, ...]:
    """(B, T, size) or (B, T, H, size) -> the same."""
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    streams = [_by_head(v) for v in (x, x if gate is None else gate, y)]
    extra = [weight.contiguous(), x.new_tensor([eps])]
    _over_rows("norms.rms_norm_worker", streams, extra, streams[0].shape, [gate is not None])
    return (y,)


def rms_norm_backward(
    x: Tensor, weight: Tensor, gate: Tensor | None, eps: float, dy: Tensor
) -> tuple[Tensor | None, ...]:
    dx = torch.empty_like(x, memory_format=torch.contiguous_format)
    dgate = None if gate is None else torch.empty_like(dx)
    pairs = (x, x if gate is None else gate, dy, dx, dx if dgate is None else dgate)
    streams = [_by_head(v) for v in pairs]
    parts = x.new_empty(torch.get_num_threads(), weight.shape[0])
    extra = [weight.contiguous(), x.new_tensor([eps]), parts]
    flags = [gate is not None]
    used = _over_rows("norms.rms_norm_backward_worker", streams, extra, streams[0].shape, flags)
    return dx, parts[:used].sum(0), dgate


def swiglu(x: Tensor) -> tuple[Tensor, ...]:
    """(B, T, 2 size) -> (B, T, size)."""
    x = row_major(x)
    y = x.new_empty(*x.shape[:-1], x.shape[-1] // 2)
    _over_rows("gates.swiglu_worker", [x, y], [], y[:, :, None].shape)
    return (y,)


def swiglu_backward(x: Tensor, dy: Tensor) -> tuple[Tensor, ...]:
    x, dy = row_major(x), row_major(dy)
    dx = torch.empty_like(x, memory_format=torch.contiguous_format)
    _over_rows("gates.swiglu_backward_worker", [x, dy, dx], [], dy[:, :, None].shape)
    return (dx,)


def addresses(q: Tensor, s: Tensor, b: Tensor, rho: Tensor, lam: Tensor) -> list[Tensor]:
    """q, s, b (B, T, H, S), rho, lam (B, T, H) -> q' and d."""
    tensors = [row_major(x) for x in (q, s, b, rho, lam)]
    made = [torch.empty_like(q, memory_format=torch.contiguous_format) for _ in range(2)]
    _over_rows("addresses.addresses_worker", [*tensors, *made], [_address_rows(q)], q.shape)
    return made


def addresses_backward(
    q: Tensor,
    s: Tensor,
    b: Tensor,
    rho: Tensor,
    lam: Tensor,
    dq: Tensor | None,
    dd: Tensor | None,
) -> list[Tensor]:
    """Gradients of the five tensors from those of q' and d."""
    tensors = [row_major(x) for x in (q, s, b, rho, lam)]
    made = [torch.empty_like(x, memory_format=torch.contiguous_format) for x in tensors]
    given = [torch.zeros_like(tensors[0]) if x is None else row_major(x) for x in (dq, dd)]
    streams = [*tensors, *made, *given]
    _over_rows("addresses.addresses_backward_worker", streams, [_address_rows(q)], q.shape)
    return made


def _address_rows(q: Tensor) -> Tensor:
    """Scratch of all threads."""
    return q.new_empty(torch.get_num_threads(), addresses_scratch(q.shape[-1]))


def convolution(
    x: Tensor, weight: Tensor, history: Tensor | None, offsets: Tensor | None
) -> tuple[Tensor, ...]:
    """(B, T, channels) -> the same."""
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    _convolve("convolution.convolution_worker", [x, y], weight, history, offsets)
    return (y,)


def convolution_backward(
    x: Tensor, weight: Tensor, history: Tensor | None, offsets: Tensor | None, dy: Tensor
) -> tuple[Tensor | None, ...]:
    dx = torch.empty_like(x, memory_format=torch.contiguous_format)
    dweight = torch.empty_like(weight)
    dhistory = None if history is None else torch.empty_like(history)
    gradients = [dweight, dweight if dhistory is None else dhistory]
    worker = "convolution.convolution_backward_worker"
    _convolve(worker, [x, dy, dx], weight, history, offsets, gradients)
    return dx, dweight, dhistory, None


def proposal(
    k: Tensor, v: Tensor, a_k: Tensor, a_v: Tensor, c: Tensor, eps: float
) -> tuple[Tensor, ...]:
    """k (B, T, H, Dk), v (B, T, H, Dv), a_k (H, R, Dk), a_v (H, R, Dv), c (H, S, R) -> (…, S)."""
    b = k.new_empty(*k.shape[:3], c.shape[1])
    _propose([k, v, b], (a_k, a_v, c), eps, backward=False)
    return (b,)


def proposal_backward(
    k: Tensor, v: Tensor, a_k: Tensor, a_v: Tensor, c: Tensor, eps: float, db: Tensor
) -> tuple[Tensor, ...]:
    dk, dv = (torch.empty_like(x, memory_format=torch.contiguous_format) for x in (k, v))
    return dk, dv, *_propose([k, v, db, dk, dv], (a_k, a_v, c), eps, backward=True)


def _propose(
    streams: Sequence[Tensor], parameters: Sequence[Tensor], eps: float, *, backward: bool
) -> list[Tensor]:
    """Call the worker; return the parameters' gradients, summed over threads, if ``backward``."""
    streams = [row_major(x) for x in streams]
    parameters = [x.contiguous() for x in parameters]
    (batch, tokens, heads, keys), values = streams[0].shape, streams[1].shape[-1]
    address, rank = parameters[2].shape[1:]
    work = batch * tokens * heads * rank * (keys + values + address)
    workers = threads.worker_count(batch * tokens, work)
    sizes = keys, values, rank, address
    name = NAMES[streams[0].dtype]
    scratch = streams[0].new_empty(workers, _proposal_scratch(*sizes, name))
    settings = scratch.new_tensor([eps])
    parts = [x.new_empty(workers, *x.shape) for x in parameters] if backward else []
    addresses = [x.data_ptr() for x in (*parameters, scratch, settings, *parts)]
    numbers = [workers, scratch.shape[1], batch, tokens, heads, *sizes]
    worker = "proposal.proposal_backward_worker" if backward else "proposal.proposal_worker"
    _run(worker, streams, addresses, numbers, workers)
    return [part.sum(0) for part in parts]


@cache
def _proposal_scratch(keys: int, values: int, rank: int, address: int, number: str) -> int:
    arguments = np.array([keys, values, rank, address, 0], dtype=np.int64)
    threads.run("proposal.measure_worker", number, number, arguments, 1)
    return int(arguments[4])


def cross_entropy(logits: Tensor, labels: Tensor, ignored: int) -> tuple[Tensor, ...]:
    """(rows, size), (rows,) -> the sum over rows not ``ignored``, and log Σ eˣ of each row."""
    logits, labels = logits.contiguous(), labels.contiguous()
    losses = logits.new_empty(labels.shape)
    partitions = torch.empty_like(losses)
    addresses = [x.data_ptr() for x in (logits, labels, losses, partitions)]
    _over_logits("entropy.cross_entropy_worker", logits, addresses, ignored)
    return losses.sum(), partitions


def cross_entropy_backward(
    logits: Tensor, labels: Tensor, partitions: Tensor, ignored: int, gradient: Tensor
) -> tuple[Tensor | None, ...]:
    logits, labels, gradient = logits.contiguous(), labels.contiguous(), gradient.contiguous()
    dlogits = torch.empty_like(logits)
    addresses = [x.data_ptr() for x in (logits, labels, partitions, gradient, dlogits)]
    _over_logits("entropy.cross_entropy_backward_worker", logits, addresses, ignored)
    return dlogits, None


def _over_logits(worker: str, logits: Tensor, addresses: Sequence[int], ignored: int) -> None:
    rows, size = logits.shape
    workers = threads.worker_count(rows, _COST * rows * size)
    name = NAMES[logits.dtype]
    arguments = kernel_arguments([], addresses, [workers, rows, size, ignored])
    threads.run(worker, name, name, arguments, workers)


def _convolve(
    worker: str,
    streams: Sequence[Tensor],
    weight: Tensor,
    history: Tensor | None,
    offsets: Tensor | None,
    gradients: Sequence[Tensor] = (),
) -> None:
    streams = [row_major(x) for x in streams]
    batch, tokens, channels = streams[0].shape
    weight = weight.contiguous()
    before = weight if history is None else history.contiguous()
    table = sequence_table(offsets, batch, tokens, 1)
    # Threads own channels of it, so one is enough for all.
    scratch = torch.empty_like(weight)
    workers = threads.worker_count(-(-channels // PAD), _COST * batch * tokens * channels)
    addresses = [weight.data_ptr(), before.data_ptr(), table.ctypes.data, scratch.data_ptr()]
    addresses += [x.data_ptr() for x in gradients]
    numbers = [workers, len(table), channels, weight.shape[0], history is not None]
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
    _run(worker, streams, addresses, [workers, *shape, *(flags or [0])], workers)
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

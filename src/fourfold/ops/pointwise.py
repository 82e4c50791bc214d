"""What surrounds a memory in its layer, each function in one pass over its inputs on a CPU.

Composed of torch's operators these cost more than the memory: a small model's step is bound by
memory traffic. Elsewhere than on a CPU, under torch.compile and in half precision they are so
composed, and the results are the same to rounding.

Legend: B rows, T tokens, H heads, N sequences, K filter length.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from fourfold.ops.kernels import plain_on_cpu


def unit(x: Tensor, *, scale: float = 1.0, eps: float = 1e-12) -> Tensor:
    """Rows of norm ``scale``; a row shorter than ``eps`` is divided by ``eps`` instead.

    Args:
        x: (B, T, H, size).
    """
    if plain_on_cpu(x) and x.ndim == 4:
        return _Unit.apply(x, scale, eps)
    y = F.normalize(x, dim=-1, eps=eps)
    return y if scale == 1 else y * scale


def rms_norm(x: Tensor, weight: Tensor, eps: float, gate: Tensor | None = None) -> Tensor:
    """x / √(mean(x²) + eps) ⊙ weight, and ⊙ silu(gate) if there is one.

    Args:
        x: (B, T, size) or (B, T, H, size).
        weight: (size,).
        gate: like x.
    """
    if plain_on_cpu(x, weight, gate) and x.ndim in (3, 4):
        return _RMSNorm.apply(x, weight, eps, gate)
    y = F.rms_norm(x, weight.shape, weight, eps)
    return y if gate is None else y * F.silu(gate)


def swiglu(x: Tensor) -> Tensor:
    """silu(gate) ⊙ up, for x = [gate ; up]: (B, T, 2 size) -> (B, T, size)."""
    if plain_on_cpu(x) and x.ndim == 3:
        return _SwiGLU.apply(x)
    gate, up = x.chunk(2, -1)
    return F.silu(gate) * up


def cross_entropy_sum(logits: Tensor, labels: Tensor, ignore_index: int = -100) -> Tensor:
    """Σ (log Σ eˣ − x_label) over the rows whose label is not ``ignore_index``; nats.

    Args:
        logits: (rows, size).
        labels: (rows,), int64.
    """
    if plain_on_cpu(logits):
        if labels.numel() and not _are_labels(labels, logits.shape[-1], ignore_index):
            raise IndexError(
                f"labels must lie in [0, {logits.shape[-1]}) or be {ignore_index}; got values "
                f"from {int(labels.min())} to {int(labels.max())}."
            )
        return _CrossEntropy.apply(logits, labels, ignore_index)
    return F.cross_entropy(logits, labels, ignore_index=ignore_index, reduction="sum")


def _are_labels(labels: Tensor, size: int, ignore_index: int) -> bool:
    return bool((((labels >= 0) & (labels < size)) | (labels == ignore_index)).all())


def causal_convolution(
    x: Tensor, weight: Tensor, history: Tensor | None, offsets: Tensor | None
) -> Tensor:
    """silu(Σ_j w_j ⊙ x_{t−K+1+j}), in one pass; only where ``plain_on_cpu`` says so.

    Args:
        x: (B, T, channels).
        weight: (K, channels).
        history: (N, K − 1, channels), what came before each sequence; None for zeros.
        offsets: (N + 1,) offsets of packed sequences, or None.
    """
    return _Convolution.apply(x, weight, history, offsets)


def proposal(
    k: Tensor, v: Tensor, a_k: Tensor, a_v: Tensor, c: Tensor, eps: float
) -> Tensor:
    """``transport_proposal`` in one pass; only where ``plain_on_cpu`` says so.

    Args:
        k, v: (B, T, H, Dk), (B, T, H, Dv), Dk and Dv at least 1.
        a_k, a_v, c: (H, R, Dk), (H, R, Dv), (H, S, R).
    """
    return _Proposal.apply(k, v, a_k, a_v, c, eps)


class _Unit(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: float, eps: float) -> Tensor:
        from fourfold.ops.cpu import surroundings

        ctx.save_for_backward(x)
        ctx.settings = scale, eps
        return surroundings.unit(x, scale, eps)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        from fourfold.ops.cpu import surroundings

        return surroundings.unit_backward(*ctx.saved_tensors, dy, *ctx.settings), None, None


class _RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float, gate: Tensor | None) -> Tensor:
        from fourfold.ops.cpu import surroundings

        ctx.save_for_backward(x, weight, gate)
        ctx.eps = eps
        return surroundings.rms_norm(x, weight, eps, gate)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        from fourfold.ops.cpu import surroundings

        x, weight, gate = ctx.saved_tensors
        dx, dweight, dgate = surroundings.rms_norm_backward(x, weight, ctx.eps, gate, dy)
        return dx, dweight, None, dgate


class _SwiGLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        from fourfold.ops.cpu import surroundings

        ctx.save_for_backward(x)
        return surroundings.swiglu(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> Tensor:
        from fourfold.ops.cpu import surroundings

        return surroundings.swiglu_backward(*ctx.saved_tensors, dy)


class _Convolution(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, history: Tensor | None, offsets: Tensor | None
    ) -> Tensor:
        from fourfold.ops.cpu import surroundings

        ctx.save_for_backward(x, weight, history, offsets)
        return surroundings.convolution(x, weight, history, offsets)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        from fourfold.ops.cpu import surroundings

        return *surroundings.convolution_backward(*ctx.saved_tensors, dy), None


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, ignore_index: int) -> Tensor:
        from fourfold.ops.cpu import surroundings

        losses, partitions = surroundings.cross_entropy(logits, labels, ignore_index)
        ctx.save_for_backward(logits, labels, partitions)
        ctx.ignore_index = ignore_index
        return losses.sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        from fourfold.ops.cpu import surroundings

        logits, labels, partitions = ctx.saved_tensors
        dlogits = surroundings.cross_entropy_backward(
            logits, labels, partitions, ctx.ignore_index, gradient.contiguous()
        )
        return dlogits, None, None


class _Proposal(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, k: Tensor, v: Tensor, a_k: Tensor, a_v: Tensor, c: Tensor, eps: float
    ) -> Tensor:
        from fourfold.ops.cpu import surroundings

        ctx.save_for_backward(k, v, a_k, a_v, c)
        ctx.eps = eps
        return surroundings.proposal(k, v, a_k, a_v, c, eps)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, db: Tensor) -> tuple[Tensor | None, ...]:
        from fourfold.ops.cpu import surroundings

        return *surroundings.proposal_backward(*ctx.saved_tensors, ctx.eps, db), None

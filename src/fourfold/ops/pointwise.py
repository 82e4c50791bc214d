"""What surrounds a memory in its layer, each function in one pass over its inputs on a CPU.

Composed of torch's operators these cost more than the memory: a small model's step is bound by
memory traffic. Elsewhere than on a CPU, under torch.compile and in half precision they are so
composed, and the results are the same to rounding. Second derivatives always are.

Legend: B rows, T tokens, H heads, N sequences, K filter length.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fourfold.ops.kernels import plain_on_cpu

IGNORED = -100
"""The label of a row where nothing is to be predicted, as in torch and transformers."""


def unit(x: Tensor, *, scale: float = 1.0, eps: float = 1e-12) -> Tensor:
    """Rows of norm ``scale``; a row shorter than ``eps`` is divided by ``eps`` instead.

    Args:
        x: (B, T, H, size).
    """
    if plain_on_cpu(x) and x.ndim == 4:
        return in_one_pass("unit", _unit, (x,), (scale, eps))
    return _unit(x, scale, eps)


def _unit(x: Tensor, scale: float, eps: float) -> Tensor:
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
        return in_one_pass("rms_norm", _rms_norm, (x, weight, gate), (eps,))
    return _rms_norm(x, weight, gate, eps)


def _rms_norm(x: Tensor, weight: Tensor, gate: Tensor | None, eps: float) -> Tensor:
    y = F.rms_norm(x, weight.shape, weight, eps)
    return y if gate is None else y * F.silu(gate)


def swiglu(x: Tensor) -> Tensor:
    """silu(gate) ⊙ up, for x = [gate ; up]: (B, T, 2 size) -> (B, T, size)."""
    if plain_on_cpu(x) and x.ndim == 3:
        return in_one_pass("swiglu", _swiglu, (x,))
    return _swiglu(x)


def _swiglu(x: Tensor) -> Tensor:
    gate, up = x.chunk(2, -1)
    return F.silu(gate) * up


def cross_entropy_sum(logits: Tensor, labels: Tensor, ignore_index: int = IGNORED) -> Tensor:
    """Σ (log Σ eˣ − x_label) over the rows whose label is not ``ignore_index``; nats.

    Args:
        logits: (rows, size).
        labels: (rows,), int64.

    Raises:
        IndexError: a label that is no column, on a CPU.
    """
    if not plain_on_cpu(logits):
        return _cross_entropy(logits, labels, ignore_index)
    columns = logits.shape[-1]
    if not (((labels >= 0) & (labels < columns)) | (labels == ignore_index)).all():
        raise IndexError(
            f"labels must lie in [0, {columns}) or be {ignore_index}; got values "
            f"from {int(labels.min())} to {int(labels.max())}."
        )
    return in_one_pass("cross_entropy", _cross_entropy, (logits, labels), (ignore_index,))


def _cross_entropy(logits: Tensor, labels: Tensor, ignore_index: int) -> Tensor:
    return F.cross_entropy(logits, labels, ignore_index=ignore_index, reduction="sum")


def in_one_pass(
    kernel: str,
    composed: Callable[..., Tensor],
    tensors: tuple[Tensor | None, ...],
    settings: tuple[Any, ...] = (),
) -> Tensor:
    """Run a kernel where ``plain_on_cpu`` says that it can be.

    Args:
        kernel: its name in ``fourfold.ops.cpu.surroundings``.
        composed: the same, of torch's operators: composed(*tensors, *settings). Second
            derivatives are taken through it.
        tensors: what may need gradients, and what goes with it.
        settings: the rest of the arguments.
    """
    return _OnePass.apply(kernel, composed, settings, *tensors)


class _OnePass(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        kernel: str,
        composed: Callable[..., Tensor],
        settings: tuple[Any, ...],
        *tensors: Tensor | None,
    ) -> Tensor:
        from fourfold.ops.cpu import surroundings

        y, *kept = getattr(surroundings, kernel)(*tensors, *settings)
        ctx.save_for_backward(*tensors, *kept)
        ctx.kernel, ctx.composed, ctx.settings, ctx.count = kernel, composed, settings, len(tensors)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
        from fourfold.ops.cpu import surroundings

        if torch.is_grad_enabled():  # somebody will differentiate this again
            tensors = ctx.saved_tensors[: ctx.count]
            gradients = gradients_of(ctx.composed, tensors, ctx.settings, dy)
        else:
            backward = getattr(surroundings, f"{ctx.kernel}_backward")
            gradients = backward(*ctx.saved_tensors, *ctx.settings, dy)
        return None, None, None, *gradients


def gradients_of(
    function: Callable[..., Any],
    tensors: tuple[Tensor | None, ...],
    settings: tuple[Any, ...],
    given: Any,
) -> list[Tensor | None]:
    """Differentiable gradients of function(*tensors, *settings), None for those not needed."""
    needed = [x for x in tensors if x is not None and x.requires_grad]
    outputs = function(*tensors, *settings)
    pairs = [(outputs, given)] if isinstance(outputs, Tensor) else zip(outputs, given, strict=True)
    used, weights = zip(*[pair for pair in pairs if pair[1] is not None], strict=True)
    found = torch.autograd.grad(used, needed, weights, create_graph=True, allow_unused=True)
    gradients = iter(found)
    return [next(gradients) if x is not None and x.requires_grad else None for x in tensors]

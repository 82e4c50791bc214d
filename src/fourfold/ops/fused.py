"""The fused form: kernels of our own below the operator, registered with torch.

Registered operators are opaque to torch.compile, which sees shapes (fake) and gradients
(autograd). The kernels stand in ``cpu`` (Numba) and ``gpu`` (Triton); they are neither imported nor
compiled before they are used.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from fourfold.ops.chunked import chunked_delta_rule
from fourfold.ops.kernels import kernels_for, transformed
from fourfold.ops.pointwise import gradients_of
from fourfold.ops.transport import recall, transport

FUSED_DTYPES = {
    "cpu": (torch.float32, torch.float64, torch.bfloat16),
    "cuda": (torch.float32, torch.bfloat16),
}
"""What the kernels read as it is, by type of device."""


def wants_fused(form: str, device: torch.device) -> bool:
    """Whether ``form`` asks for the kernels: by name, or "auto" where there are some."""
    return form == "fused" or (form == "auto" and kernels_for(device))


def fused_delta_rule(
    *,
    q: Tensor,
    s: Tensor,
    d: Tensor,
    e: Tensor,
    log_alpha: Tensor,
    erase: Tensor,
    write: Tensor,
    blocks: Sequence[int],
    initial_state: Tensor | None,
    cu_seqlens: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Same result as ``sequential_delta_rule``, to rounding.

    Args:
        q, s, d: (B, T, H, S), e: (B, T, H, D), all of one of the device's ``FUSED_DTYPES``.
        log_alpha: (B, T, H).
        erase, write: (B, T, H, G).
        blocks: widths of the G column blocks; they sum to D.
        initial_state: (N, H, S, D), or None for zeros.
        cu_seqlens: (N + 1,) offsets of packed sequences, or None.

    log_alpha, erase, write and the state are float64 if the others are, else float32.

    Returns:
        y (B, T, H, D) in the dtype of ``e`` and the final state (N, H, S, D).

    Raises:
        ValueError: there are no kernels for the device, or Triton is not installed.
        TypeError, ValueError: float64, or more than eight column blocks, on a GPU.
    """
    device = e.device.type
    if device not in FUSED_DTYPES:
        raise ValueError(f'form="fused" has kernels for cpu and cuda; the tensors are on {device}.')
    if device == "cuda" and find_spec("triton") is None:
        raise ValueError('form="fused" needs Triton on a GPU: pip install "fourfold[gpu]".')
    edges = [0]
    for width in blocks:
        edges.append(edges[-1] + width)
    inputs = (q, s, d, e, log_alpha, erase, write, initial_state)
    keep = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in inputs)
    offsets = None if cu_seqlens is None else cu_seqlens.long()
    call = _delta_rule if keep or not _at_once(e) else _run_delta_rule
    y, state, _, _ = call(*inputs, offsets, edges, keep)
    return y, state


def _at_once(tensor: Tensor) -> bool:
    """Whether torch need not know of the call: its dispatch would take longer than one token."""
    return type(tensor) is Tensor and not torch.compiler.is_compiling() and not transformed()


def fused_addresses(
    *, q: Tensor, s: Tensor, b: Tensor, rho: Tensor, lam: Tensor
) -> tuple[Tensor, Tensor]:
    """``recall(q, transport(s, b, rho), lam)`` and the destination, in one pass on a CPU.

    Args:
        q, s, b: (B, T, H, S).
        rho, lam: (B, T, H). All float32 or all float64.

    Returns:
        the corrected query and the destination, both (B, T, H, S).
    """
    inputs = (q, s, b, rho, lam)
    keep = torch.is_grad_enabled() and any(x.requires_grad for x in inputs)
    recalled, d = (_addresses if keep or not _at_once(q) else _run_addresses)(*inputs)
    return recalled, d


def _run_delta_rule(
    q: Tensor,
    s: Tensor,
    d: Tensor,
    e: Tensor,
    log_alpha: Tensor,
    erase: Tensor,
    write: Tensor,
    initial_state: Tensor | None,
    offsets: Tensor | None,
    edges: Sequence[int],
    keep: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    tensors = (q, s, d, e, log_alpha, erase, write)
    if e.device.type == "cuda":
        from fourfold.ops.gpu import launch

        return launch.forward(*tensors, list(edges), initial_state, offsets, keep)
    from fourfold.ops.cpu import operator

    return operator.forward(tensors, edges, initial_state, offsets, keep)


_delta_rule = torch.library.custom_op("fourfold::delta_rule", _run_delta_rule, mutates_args=())


@_delta_rule.register_fake
def _(*arguments: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    q, _, _, e, log_alpha, _, _, _, offsets, edges, keep = arguments
    batch, _, heads, columns = e.shape
    sequences = batch if offsets is None else offsets.shape[0] - 1
    if e.device.type == "cuda":
        from fourfold.ops.gpu import plan

        predicted, states = plan.kept_shapes(q, e, list(edges), offsets, keep)
    else:
        from fourfold.ops.cpu.shapes import kept_shapes

        predicted, states = kept_shapes(q.shape, columns, offsets, keep)
    return (
        torch.empty_like(e, memory_format=torch.contiguous_format),
        log_alpha.new_empty(sequences, heads, q.shape[-1], columns),
        log_alpha.new_empty(predicted),
        (e if e.device.type == "cuda" else log_alpha).new_empty(states),
    )


@torch.library.custom_op("fourfold::delta_rule_backward", mutates_args=())
def _delta_rule_backward(
    q: Tensor,
    s: Tensor,
    d: Tensor,
    e: Tensor,
    log_alpha: Tensor,
    erase: Tensor,
    write: Tensor,
    has_state: bool,
    offsets: Tensor | None,
    edges: Sequence[int],
    predicted: Tensor,
    states: Tensor,
    dy: Tensor | None,
    dfinal: Tensor | None,
) -> list[Tensor]:
    tensors = (q, s, d, e, log_alpha, erase, write)
    if e.device.type == "cuda":
        from fourfold.ops.gpu import launch

        kept = predicted, states
        return list(launch.backward(*tensors, list(edges), offsets, *kept, dy, dfinal))
    from fourfold.ops.cpu import operator

    return operator.backward(tensors, edges, has_state, offsets, predicted, states, dy, dfinal)


@_delta_rule_backward.register_fake
def _(*arguments: Any) -> list[Tensor]:
    inputs, offsets = arguments[:7], arguments[8]
    q, _, _, e, log_alpha, _, _ = inputs
    batch, _, heads, columns = e.shape
    sequences = batch if offsets is None else offsets.shape[0] - 1
    gradients = [torch.empty_like(x, memory_format=torch.contiguous_format) for x in inputs]
    return [*gradients, log_alpha.new_empty(sequences, heads, q.shape[-1], columns)]


def _keep_for_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, initial_state, offsets, edges, _ = inputs
    _, _, predicted, states = output
    ctx.save_for_backward(*tensors, initial_state, offsets, predicted, states)
    ctx.edges = edges
    ctx.mark_non_differentiable(predicted, states)
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, dy: Tensor | None, dfinal: Tensor | None, *_: Any) -> tuple[Any, ...]:
    *tensors, initial_state, offsets, predicted, states = ctx.saved_tensors
    if torch.is_grad_enabled():  # somebody will differentiate this again
        inputs = (*tensors, initial_state)
        again = gradients_of(_chunked, inputs, (offsets, ctx.edges), (dy, dfinal))
        return *again, None, None, None
    has_state = initial_state is not None
    *gradients, dinitial = _delta_rule_backward(
        *tensors, has_state, offsets, ctx.edges, predicted, states, dy, dfinal
    )
    return *gradients, dinitial if has_state else None, None, None, None


def _chunked(
    q: Tensor,
    s: Tensor,
    d: Tensor,
    e: Tensor,
    log_alpha: Tensor,
    erase: Tensor,
    write: Tensor,
    initial_state: Tensor | None,
    offsets: Tensor | None,
    edges: Sequence[int],
) -> tuple[Tensor, Tensor]:
    """The same of torch's operators, for second derivatives."""
    sequences = e.shape[0] if offsets is None else offsets.shape[0] - 1
    if initial_state is None:
        initial_state = log_alpha.new_zeros(sequences, e.shape[2], q.shape[-1], e.shape[-1])
    precise = (x.to(log_alpha.dtype) for x in (q, s, d, e))
    y, state = chunked_delta_rule(
        **dict(zip("qsde", precise, strict=True)),
        log_alpha=log_alpha,
        erase=erase.unbind(-1),
        write=write.unbind(-1),
        blocks=[end - start for start, end in pairwise(edges)],
        state=initial_state,
        lengths=None if offsets is None else offsets.diff().tolist(),
        chunk_size=64,
    )
    return y.to(e.dtype), state


_delta_rule.register_autograd(_backward, setup_context=_keep_for_backward)


def _run_addresses(q: Tensor, s: Tensor, b: Tensor, rho: Tensor, lam: Tensor) -> list[Tensor]:
    from fourfold.ops.cpu import surroundings

    return surroundings.addresses(q, s, b, rho, lam)


_addresses = torch.library.custom_op("fourfold::addresses", _run_addresses, mutates_args=())


@_addresses.register_fake
def _(q: Tensor, s: Tensor, b: Tensor, rho: Tensor, lam: Tensor) -> list[Tensor]:
    return [torch.empty_like(q, memory_format=torch.contiguous_format) for _ in range(2)]


@torch.library.custom_op("fourfold::addresses_backward", mutates_args=())
def _addresses_backward(
    q: Tensor,
    s: Tensor,
    b: Tensor,
    rho: Tensor,
    lam: Tensor,
    dq: Tensor | None,
    dd: Tensor | None,
) -> list[Tensor]:
    from fourfold.ops.cpu import surroundings

    return surroundings.addresses_backward(q, s, b, rho, lam, dq, dd)


@_addresses_backward.register_fake
def _(*arguments: Any) -> list[Tensor]:
    inputs = arguments[:5]
    return [torch.empty_like(x, memory_format=torch.contiguous_format) for x in inputs]


def _composed_addresses(
    q: Tensor, s: Tensor, b: Tensor, rho: Tensor, lam: Tensor
) -> tuple[Tensor, Tensor]:
    """The same of torch's operators, for second derivatives."""
    d = transport(s=s, b=b, rho=rho)
    return recall(q=q, d=d, lam=lam), d


def _keep_inputs(ctx: Any, inputs: tuple[Tensor, ...], output: list[Tensor]) -> None:
    ctx.save_for_backward(*inputs)
    ctx.set_materialize_grads(False)


def _addresses_gradients(ctx: Any, gradients: list[Tensor | None]) -> tuple[Tensor | None, ...]:
    if torch.is_grad_enabled():  # somebody will differentiate this again
        return tuple(gradients_of(_composed_addresses, ctx.saved_tensors, (), gradients))
    return tuple(_addresses_backward(*ctx.saved_tensors, *gradients))


_addresses.register_autograd(_addresses_gradients, setup_context=_keep_inputs)

"""When operators may use kernels of our own instead of torch's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor, nn

FEW = 1 << 13
"""Numbers below which torch's operators, called one after the other, are done before a kernel."""

_enabled = ContextVar("fourfold_kernels", default=True)


@contextmanager
def without_kernels() -> Iterator[None]:
    """Compute with torch's operators alone: slower on a CPU, but open to look into.

    "auto" then means "chunked" for the memory operators, and the functions that surround them
    (convolution, norms, gates) are composed of torch's. Compiled code is not affected.
    """
    token = _enabled.set(False)
    try:
        yield
    finally:
        _enabled.reset(token)


def kernels_for(device: torch.device) -> bool:
    """Whether there are kernels for the device, and nothing asks to see inside the operators."""
    if device.type != "cpu":
        return False
    if torch.compiler.is_compiling():  # which cannot look at what follows
        return True
    return _enabled.get() and not transformed()


def transformed() -> bool:
    """Whether torch.func (vmap, grad, ...) is looking on; not to be asked while compiling."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def plain_on_cpu(*tensors: Tensor | None) -> bool:
    """Whether a kernel can read these as they are, and the first is large enough to be worth it.

    torch.compile is left to fuse by itself.
    """
    if torch.compiler.is_compiling():
        return False
    present = [tensor for tensor in tensors if tensor is not None]
    first = present[0]
    return first.numel() >= FEW and (
        first.dtype in (torch.float32, torch.float64)
        and all(type(x) in (Tensor, nn.Parameter) and x.dtype == first.dtype for x in present)
        and all(x.device.type == "cpu" for x in present)
        and kernels_for(first.device)
        and not torch.is_autocast_enabled("cpu")
    )

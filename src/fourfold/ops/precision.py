"""In which precision an operator computes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def compute_dtype(tensors: Sequence[Tensor]) -> torch.dtype:
    """float64 when any input is float64, else float32: states are never kept in half precision."""
    wide = any(tensor.dtype == torch.float64 for tensor in tensors)
    return torch.float64 if wide else torch.float32


def no_autocast(device: torch.device) -> AbstractContextManager[object]:
    """Keep automatic mixed precision away: it would multiply in half precision all the same."""
    if torch.amp.is_autocast_available(device.type):
        return torch.autocast(device.type, enabled=False)
    return nullcontext()

"""Tensors that grow at their end, without being copied for every new entry."""

from __future__ import annotations

import torch
from torch import Tensor

LEAST_ROOM = 64
"""Entries."""


class _Room:
    """What lies behind a tensor that was returned by ``appended``."""

    def __init__(self, buffer: Tensor, used: int) -> None:
        self.buffer, self.used = buffer, used

    def takes(self, new: Tensor, behind: int, dim: int) -> bool:
        """Whether ``new`` may be written behind so many entries."""
        # What was made for inference may be written to only there.
        writable = torch.is_inference_mode_enabled() or not self.buffer.is_inference()
        enough = behind + new.shape[dim] <= self.buffer.shape[dim]
        return self.used == behind and enough and writable and self.buffer.dtype == new.dtype


def appended(held: Tensor, new: Tensor, dim: int) -> Tensor:
    """``torch.cat([held, new], dim)``.

    Where few entries come behind many and no gradient is wanted, the result has room behind it for
    later ones, and the next call with it writes there. Nothing that anyone holds is changed: of two
    tensors that grow out of the same one, only the first may use the room.
    """
    before, after = held.shape[dim], held.shape[dim] + new.shape[dim]
    few = new.shape[dim] < before
    if not few or torch.is_grad_enabled() or torch.compiler.is_compiling():
        return torch.cat([held, new], dim)
    room: _Room | None = getattr(held, "_room", None)
    if room is None or not room.takes(new, before, dim):
        shape = list(held.shape)
        shape[dim] = after + max(LEAST_ROOM, after // 2)
        room = _Room(held.new_empty(shape), before)
        room.buffer.narrow(dim, 0, before).copy_(held)
    # Past autograd's count of changes: what it has seen so far of the buffer stays as it is.
    room.buffer.data.narrow(dim, before, after - before).copy_(new)
    room.used = after
    result = room.buffer.narrow(dim, 0, after)
    result._room = room  # type: ignore[attr-defined]
    return result

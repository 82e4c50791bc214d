"""Softmax reading of what is in reach, a bounded number of questions at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

NOWHERE = -1
"""The place of a slot that holds nothing, and of a question that is none."""

SCORES = 1 << 22
"""Questions times slots, of all rows, that are looked at together."""

Sharpen = Callable[[Tensor, Tensor], Tensor]
"""(q (B, H, T, D), numbers of slots in reach (B, T)) -> q."""


class Reach(NamedTuple):
    """From t − window, which is out of it, to t − delay; a window of None is all of the past.

    A delay may be of each row: (B, 1).
    """

    window: int | None
    delay: int | Tensor

    def visible(self, positions: Tensor, held: Tensor) -> Tensor:
        """(B, T, L): what questions at positions (B, T) may read of slots held (B, L)."""
        last = positions - self.delay
        return self._between(held[:, None], positions[..., None], last[..., None])

    def of_any(self, positions: Tensor, held: Tensor) -> slice:
        """The slots between the first and the last that any question may read."""
        asking = positions != NOWHERE
        first = positions.masked_fill(~asking, torch.iinfo(torch.long).max).amin(1, keepdim=True)
        last = positions.amax(1, keepdim=True) - self.delay
        slots = self._between(held, first, last).any(0).nonzero().flatten()
        return slice(int(slots[0]), int(slots[-1]) + 1) if len(slots) else slice(0, 0)

    def _between(self, held: Tensor, first: Tensor, last: Tensor) -> Tensor:
        within = (held != NOWHERE) & (held <= last)
        return within if self.window is None else within & (held > first - self.window)


def read_in_reach(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    positions: Tensor,
    held: Tensor,
    reach: Reach,
    *,
    scale: float | None = None,
    sharpen: Sharpen | None = None,
) -> Tensor:
    """Softmax attention to the slots in reach of each question; zero where there is none.

    Args:
        q: (B, H, T, D).
        k: (B, G, L, D), for as many heads or for groups of them.
        v: (B, G, L, E).
        positions: (B, T), place of each question.
        held: (B, L), place of each slot.
        scale: of scores; None for 1/√D.
        sharpen: makes the questions depend on how many slots are in reach.
    """

    def read(q: Tensor, k: Tensor, v: Tensor, positions: Tensor, held: Tensor) -> Tensor:
        return read_visible(q, k, v, reach.visible(positions, held), scale=scale, sharpen=sharpen)

    block = max(1, SCORES // max(1, held.numel()))
    if q.shape[2] <= block:
        return read(q, k, v, positions, held)
    parts = []
    for asked, places in zip(q.split(block, 2), positions.split(block, 1), strict=True):
        slots = reach.of_any(places, held)
        part = (asked, k[:, :, slots], v[:, :, slots], places, held[:, slots])
        # Else each block would keep its mask and its weights until the gradient.
        again = torch.is_grad_enabled()
        parts.append(checkpoint(read, *part, use_reentrant=False) if again else read(*part))
    return torch.cat(parts, 2)


def read_visible(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    visible: Tensor,
    *,
    scale: float | None = None,
    sharpen: Sharpen | None = None,
) -> Tensor:
    """Softmax attention to the slots that ``visible`` (B, T, L) shows; zero where there is none."""
    if not k.shape[2]:
        return v.new_zeros(*q.shape[:3], v.shape[-1])
    count = visible.sum(-1)
    some = count > 0
    # A row that sees nothing would be NaN, in gradients too: it sees all, and is left out.
    mask = visible | ~some[..., None]
    y = F.scaled_dot_product_attention(
        q if sharpen is None else sharpen(q, count),
        k,
        v,
        attn_mask=mask[:, None],
        scale=scale,
        enable_gqa=q.shape[1] != k.shape[1],
    )
    return torch.where(some[:, None, :, None], y, 0)

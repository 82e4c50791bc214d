"""Bytes that a model carries for a sequence, and bytes that training keeps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import torch

from fourfold.layers import Attention, MemoryLayer
from fourfold.models import FourfoldForCausalLM

FLOAT = 4
POSITION = 8
"""Bytes of a float32 number and of attention's int64 position."""


@dataclass(frozen=True)
class Carried:
    """Bytes of one sequence's memory: ``fixed`` + ``per_token`` · min(tokens, ``limit``).

    Attributes:
        limit: tokens after which it grows no more; None if it grows forever.
    """

    fixed: int
    per_token: int = 0
    limit: int | None = None

    def after(self, tokens: int) -> int:
        """Bytes after ``tokens`` tokens."""
        return self.fixed + self.per_token * (
            tokens if self.limit is None else min(tokens, self.limit)
        )


def carried(model: FourfoldForCausalLM) -> Carried:
    """What a float32 model carries from token to token for one sequence.

    Equals ``fourfold.evaluation.state_bytes``, but nothing is computed.

    Args:
        model: with numbers or without.
    """
    layers = [carried_by(memory) for memory in model.memories()]
    growing = [layer for layer in layers if layer.per_token]
    return Carried(
        fixed=sum(layer.fixed for layer in layers),
        per_token=sum(layer.per_token for layer in growing),
        limit=growing[0].limit if growing else None,  # one configuration, one sliding_window
    )


@singledispatch
def carried_by(memory: MemoryLayer[Any]) -> Carried:
    """What one layer carries: the size of its empty state, unless it is known to grow."""
    return Carried(memory.initial_state(1, dtype=torch.float32, device="meta").nbytes)


@carried_by.register
def _(memory: Attention) -> Carried:
    slot = 2 * memory.num_kv_heads * memory.head_dim * FLOAT + POSITION
    # With the next token, which is always seen, what is kept fills the window.
    limit = None if memory.sliding_window is None else memory.sliding_window - 1
    return Carried(fixed=0, per_token=slot, limit=limit)


def training_bytes(model: FourfoldForCausalLM) -> dict[str, int]:
    """Bytes that stay from step to step: float32 weights, their gradients, AdamW's two moments.

    AdamW also keeps a count of steps, one float32 for each tensor. What a step computes on the way
    is not in it, nor what processes that share a model split among them.
    """
    sizes = [parameter.numel() for parameter in model.parameters()]
    return {
        "weights": FLOAT * sum(sizes),
        "gradients": FLOAT * sum(sizes),
        "AdamW": FLOAT * (2 * sum(sizes) + len(sizes)),
    }

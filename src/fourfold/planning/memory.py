"""Bytes that a model carries for a sequence, and bytes that training keeps."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import torch

from fourfold.layers import AssociativeMemory, Attention, MemoryLayer, SideBySide
from fourfold.models import FourfoldForCausalLM

FLOAT = 4
POSITION = 8
"""Bytes of a float32 number and of the int64 position of a slot."""


@dataclass(frozen=True, order=True)
class Growth:
    """Bytes that each token adds.

    Attributes:
        per_token: bytes.
        first: tokens at the start that add nothing.
        limit: tokens that add some; after them it grows no more. None if it grows forever.
    """

    per_token: int
    first: int = 0
    limit: int | None = None

    def after(self, tokens: int) -> int:
        """Bytes after ``tokens`` tokens."""
        counted = max(0, tokens - self.first)
        return self.per_token * (counted if self.limit is None else min(counted, self.limit))


@dataclass(frozen=True)
class Carried:
    """Bytes of one sequence's memory: what is always there, and what grows."""

    fixed: int
    growing: tuple[Growth, ...] = ()

    def after(self, tokens: int) -> int:
        """Bytes after ``tokens`` tokens."""
        return self.fixed + sum(growth.after(tokens) for growth in self.growing)


def carried(model: FourfoldForCausalLM) -> Carried:
    """What a float32 model carries from token to token for one sequence.

    Equals ``fourfold.evaluation.state_bytes``, but nothing is computed.

    Args:
        model: with numbers or without.
    """
    return _together([carried_by(memory) for memory in model.memories()])


def _together(parts: list[Carried]) -> Carried:
    growing = Counter[tuple[int, int | None]]()
    for part in parts:
        for growth in part.growing:
            growing[growth.first, growth.limit] += growth.per_token
    return Carried(
        fixed=sum(part.fixed for part in parts),
        growing=tuple(
            Growth(per_token, first=first, limit=limit)
            for (first, limit), per_token in growing.items()
        ),
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
    return Carried(fixed=0, growing=(Growth(slot, limit=limit),))


@carried_by.register
def _(memory: AssociativeMemory) -> Carried:
    empty = memory.initial_state(1, dtype=torch.float32, device="meta")
    slot = 2 * memory.num_heads * memory.head_dim * FLOAT + POSITION
    # The newest pair waits for its successor, and with that the next token reads a full window.
    limit = None if memory.window is None else max(0, memory.window - 2)
    return Carried(fixed=empty.nbytes, growing=(Growth(slot, first=1, limit=limit),))


@carried_by.register
def _(memory: SideBySide) -> Carried:
    return _together([carried_by(part) for part in memory.named_memories().values()])


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

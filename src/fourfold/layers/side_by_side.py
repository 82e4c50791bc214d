"""Memories that stand side by side in one block, each read on its own."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from fourfold.layers.base import MemoryLayer
from fourfold.layers.state import SideBySideState


class SideBySide(MemoryLayer[SideBySideState]):
    """y = Σ memory(x), over memories with names.

    Each has an output map of its own. That is one output map W_o of all their heads' outputs, one
    behind the other, cut into its columns.

    Args:
        memories: by name; of one hidden_size.

    Attributes:
        disabled: names of memories whose reading counts as zero; they go on storing.
    """

    def __init__(self, memories: dict[str, MemoryLayer[Any]]) -> None:
        super().__init__()
        self.hidden_size = next(iter(memories.values())).hidden_size
        self.memories = nn.ModuleDict(memories)
        self.disabled: set[str] = set()

    def named_memories(self) -> dict[str, MemoryLayer[Any]]:
        """The memories by name."""
        return dict(self.memories.items())  # type: ignore[arg-type]

    def process(
        self, x: Tensor, state: SideBySideState | None, cu_seqlens: Tensor | None
    ) -> tuple[Tensor, SideBySideState]:
        total, states = torch.zeros_like(x), {}
        for name, memory in self.named_memories().items():
            held = None if state is None else state.memories[name]
            y, states[name] = memory.process(x, held, cu_seqlens)
            if name not in self.disabled:
                total = total + y
        return total, SideBySideState(states)

    def initial_state(
        self, sequences: int, *, dtype: torch.dtype, device: torch.device | str | None = None
    ) -> SideBySideState:
        return SideBySideState(
            {
                name: memory.initial_state(sequences, dtype=dtype, device=device)
                for name, memory in self.named_memories().items()
            }
        )

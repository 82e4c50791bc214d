"""Memory Mosaics: memories of pairs with a short and a long reach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from fourfold.layers.associative_memory import AssociativeMemory, Reach
from fourfold.layers.base import MemoryLayer
from fourfold.layers.packing import mask_of, pack
from fourfold.layers.state import MosaicState

TRAINING_DELAY = (64, 256)
"""Least and greatest delay of the long memory while training, as published."""

DRAWS = ("step", "sequence")


class PairMemories(MemoryLayer[MosaicState]):
    """Memories of pairs side by side; what all their heads read is projected back together.

    Attributes:
        disabled: names of memories whose reading counts as zero; they go on storing.
    """

    memories: nn.ModuleDict

    def __init__(
        self, *, hidden_size: int, num_heads: int, head_dim: int, memories: dict[str, nn.Module]
    ) -> None:
        super().__init__()
        self.hidden_size, self.num_heads, self.head_dim = hidden_size, num_heads, head_dim
        self.memories = nn.ModuleDict(memories)
        width = len(memories) * num_heads * head_dim
        self.out_proj = nn.Linear(width, hidden_size, bias=False)
        self.disabled: set[str] = set()
        self.reset_parameters()

    def reaches(self, rows: int) -> Mapping[str, Reach]:
        """What each memory reaches in this call, for N rows."""
        raise NotImplementedError

    def process(
        self, x: Tensor, state: MosaicState | None, cu_seqlens: Tensor | None
    ) -> tuple[Tensor, MosaicState]:
        mask = None if cu_seqlens is None else mask_of(cu_seqlens)
        rows = x.shape[0] if mask is None else len(mask)
        reaches, outputs, states = self.reaches(rows), [], {}
        for name, memory in self.memories.items():
            assert isinstance(memory, AssociativeMemory)
            held = None if state is None else state.memories[name]
            y, states[name] = memory.process(x, held, reaches[name], cu_seqlens, mask)
            y = y.flatten(-2)
            y = y if mask is None else pack(y, mask)
            outputs.append(torch.zeros_like(y) if name in self.disabled else y)
        return self.out_proj(torch.cat(outputs, -1)), MosaicState(states)

    def initial_state(
        self, sequences: int, *, dtype: torch.dtype, device: torch.device | str | None = None
    ) -> MosaicState:
        states = {}
        for name, memory in self.memories.items():
            assert isinstance(memory, AssociativeMemory)
            states[name] = memory.initial_state(sequences, dtype=dtype, device=device)
        return MosaicState(states)


class Mosaic(PairMemories):
    """The memory of Memory Mosaics v2: a short and a long one, with parameters of their own.

    The short memory reads pairs t − window + 1 … t − 1, the long one all pairs up to t − m. While
    training m is drawn at random, so that the long one learns to match contents wherever the border
    lies.

    Args:
        hidden_size: size of x.
        num_heads: H, of each of the two; the paper's numbers of parameters say that it is of each.
        head_dim: Dh.
        window: h.
        delay: m outside of training.
        training_delay: least and greatest m while training.
        delay_draw: "step" draws one m for a layer's call, "sequence" one for each sequence in it;
            the paper does not say.

    Source: seed 003; arXiv 2507.03285.
    """

    def __init__(
        self,
        *,
        hidden_size: int,
        num_heads: int,
        head_dim: int,
        window: int = 256,
        delay: int = 64,
        training_delay: Sequence[int] = TRAINING_DELAY,
        delay_draw: str = "step",
    ) -> None:
        sizes = {"hidden_size": hidden_size, "num_heads": num_heads, "head_dim": head_dim}
        super().__init__(
            **sizes,
            memories={
                name: AssociativeMemory(**sizes, gated=True, adaptive=True)
                for name in ("short", "long")
            },
        )
        check_delays(window, delay, training_delay, delay_draw)
        self.window, self.delay, self.delay_draw = window, delay, delay_draw
        self.training_delay = tuple(training_delay)

    def reaches(self, rows: int) -> Mapping[str, Reach]:
        return {"short": Reach(window=self.window), "long": Reach(delay=self._delay(rows))}

    def _delay(self, rows: int) -> int | list[int]:
        if not self.training:
            return self.delay
        low, high = self.training_delay
        if self.delay_draw == "step":
            return int(torch.randint(low, high + 1, ()))
        return torch.randint(low, high + 1, (rows,)).tolist()


class MosaicV1(PairMemories):
    """The memory of the first Memory Mosaics: one of all the past, fixed decay, fixed bandwidth.

    Source: arXiv 2405.06394; what v2 is compared with.
    """

    def __init__(self, *, hidden_size: int, num_heads: int, head_dim: int) -> None:
        sizes = {"hidden_size": hidden_size, "num_heads": num_heads, "head_dim": head_dim}
        memory = AssociativeMemory(**sizes, gated=False, adaptive=False)
        super().__init__(**sizes, memories={"all": memory})

    def reaches(self, rows: int) -> Mapping[str, Reach]:
        return {"all": Reach()}


def check_delays(
    window: int, delay: int, training_delay: Sequence[int], delay_draw: str, *, prefix: str = ""
) -> None:
    """Refuse reaches that no memory can have.

    Args:
        prefix: before the names in the messages.

    Raises:
        ValueError: a sentence that names the argument.
    """
    for name, value in (("window", window), ("delay", delay)):
        if not isinstance(value, int) or value < 1:
            raise ValueError(f"{prefix}{name} must be an integer from 1; got {value!r}.")
    whole = all(isinstance(value, int) for value in training_delay)
    if not whole or len(training_delay) != 2 or not 1 <= training_delay[0] <= training_delay[1]:
        raise ValueError(
            f"{prefix}training_delay must be the least and the greatest delay, integers from 1; "
            f"got {training_delay!r}."
        )
    if delay_draw not in DRAWS:
        raise ValueError(
            f"{prefix}delay_draw must be one of {', '.join(DRAWS)}; got {delay_draw!r}."
        )

"""How far back a memory reaches and how near it comes, which may be drawn while training."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from fourfold.layers.base import MemoryLayer
from fourfold.layers.packing import in_groups
from fourfold.layers.state import State

DRAWS = ("call", "sequence")

Delays = int | list[int]
"""The delay of a call, or of each of N sequences."""


class ReachingLayer(MemoryLayer[State]):
    """A memory that holds every token in reach.

    Packed sequences are read in groups of like length, and each with the delay drawn for it.

    Attributes:
        delay: how near a token may be to be read.
        training_delay: least and greatest delay, drawn at random while training; None for
            ``delay``.
        delay_draw: see ``draw_delays``.
    """

    delay: int
    training_delay: Sequence[int] | None
    delay_draw: str

    def delays(self, rows: int) -> Delays:
        """The delay of a call; a list for each of N rows where each has its own."""
        if not self.training or self.training_delay is None:
            return self.delay
        return draw_delays(self.training_delay, self.delay_draw, rows)

    def process(
        self, x: Tensor, state: State | None, cu_seqlens: Tensor | None
    ) -> tuple[Tensor, State]:
        delays = self.delays(x.shape[0] if cu_seqlens is None else cu_seqlens.numel() - 1)
        if state is not None or cu_seqlens is None:
            return self.read(x, state, cu_seqlens, delays)

        def read(x: Tensor, cu_seqlens: Tensor, numbers: list[int]) -> tuple[Tensor, State]:
            own = delays if isinstance(delays, int) else [delays[number] for number in numbers]
            return self.read(x, None, cu_seqlens, own)

        return in_groups(x, cu_seqlens, read)

    @abstractmethod
    def read(
        self, x: Tensor, state: State | None, cu_seqlens: Tensor | None, delays: Delays
    ) -> tuple[Tensor, State]:
        """``process`` with delays that are drawn already."""


def draw_delays(between: Sequence[int], draw: str, rows: int) -> Delays:
    """A delay from ``between``, both ends included, by torch's own generator.

    Args:
        draw: "call" draws one for a layer's call, so that the layers of one step see several;
            "sequence" one for each of ``rows`` sequences.
    """
    low, high = between
    if draw == "call":
        return int(torch.randint(low, high + 1, ()))
    return torch.randint(low, high + 1, (rows,)).tolist()


def default_delays(window: int, delay: int) -> tuple[int, int]:
    """Least and greatest delay of a long reach while training beside a short one of ``window``.

    As published, where the delay is 64 and the window 256: so that what is too near for the one is
    always within the other.
    """
    return delay, max(delay, window)


def check_reach(
    window: int | None,
    delay: int,
    training_delay: Sequence[int] | None,
    delay_draw: str,
    *,
    prefix: str = "",
) -> None:
    """Refuse reaches that no memory can have.

    Args:
        window: how far back it goes, or None.
        delay: how near it comes.
        training_delay: least and greatest delay while training, or None.
        delay_draw: see ``draw_delays``.
        prefix: before the names in the messages.

    Raises:
        ValueError: a sentence that names the argument.
    """
    if window is not None and (not isinstance(window, int) or window < 1):
        raise ValueError(f"{prefix}window must be an integer from 1; got {window!r}.")
    if not isinstance(delay, int) or delay < 1:
        raise ValueError(f"{prefix}delay must be an integer from 1; got {delay!r}.")
    if training_delay is not None:
        whole = all(isinstance(value, int) for value in training_delay)
        if not whole or len(training_delay) != 2 or not 1 <= training_delay[0] <= training_delay[1]:
            raise ValueError(
                f"{prefix}training_delay must be the least and the greatest delay, integers from "
                f"1; got {training_delay!r}."
            )
    if delay_draw not in DRAWS:
        raise ValueError(
            f"{prefix}delay_draw must be one of {', '.join(DRAWS)}; got {delay_draw!r}."
        )

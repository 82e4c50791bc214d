"""Who is timed: one interface for operators of our own and of others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fourfold.benchmarks.inputs import Inputs
from fourfold.benchmarks.shapes import Shape

Read = Callable[[Inputs, Tensor | None, bool], tuple[Tensor, Tensor | None]]
"""(inputs, state, keep) -> (y, the new state or None): keep asks for the state."""


@dataclass(frozen=True)
class Prepared:
    """A contestant with its inputs at hand.

    Attributes:
        read: () -> y (B, T, H, D).
        leaves: what gradients are taken of.
        dy: (B, T, H, D), the gradient that comes back to y.
    """

    read: Callable[[], Tensor]
    leaves: Sequence[Tensor]
    dy: Tensor

    def forward(self) -> None:
        """Read without keeping anything for gradients."""
        with torch.no_grad():
            self.read()

    def forward_backward(self) -> Sequence[Tensor | None]:
        """Read, and return the gradient of every leaf."""
        return torch.autograd.grad(self.read(), self.leaves, self.dy, allow_unused=True)


class Decoder(ABC):
    """A memory that reads one token at a time."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of what has been remembered so far."""

    @abstractmethod
    def step(self) -> None:
        """Read the next token."""


@dataclass(frozen=True)
class Contestant(ABC):
    """One row of a table.

    Attributes:
        name: as it is shown.
        note: what a reader has to know to compare it with the others.
        missing: why it cannot take part in this run, a sentence; None if it can.
        longest: tokens above which it is not asked.
        why_longest: the reason for that, a sentence.
    """

    name: str
    note: str = ""
    missing: str | None = None
    longest: int | None = None
    why_longest: str = ""
    cannot_decode: ClassVar[str | None] = None

    def refuses(self, tokens: int) -> str | None:
        """Why it does not read so many tokens, or None."""
        if self.missing is None and self.longest is not None and tokens > self.longest:
            return self.why_longest
        return self.missing

    @abstractmethod
    def prepare(self, inputs: Inputs, shape: Shape) -> Prepared:
        """Ready to read ``inputs``."""

    @abstractmethod
    def decoder(
        self, tokens: Sequence[Inputs], state: Tensor | None, seen: int, room: int
    ) -> Decoder:
        """Ready to read single tokens.

        Args:
            tokens: inputs of one token each, read in turn.
            state: (B, H, S, D) after ``seen`` tokens, or None for none seen, if it keeps a state.
            seen: tokens before, if it keeps all of them.
            room: tokens to come at most.
        """

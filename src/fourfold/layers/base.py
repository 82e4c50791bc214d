"""The one interface of all layers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Generic

import torch
from torch import Tensor, nn

from fourfold.layers.packing import offsets_of, pack, unpack
from fourfold.layers.state import State
from fourfold.ops.checks import sequence_lengths


class Initialised(nn.Module):
    """A module that says how its own parameters start."""

    def initial_values(self, std: float) -> Iterator[tuple[Tensor, Tensor]]:
        """Own parameters (not those of submodules) with their first values.

        Args:
            std: standard deviation of the model's weights, for parameters that follow it.
        """
        yield from ()

    def reset_parameters(self, std: float = 0.02) -> None:
        """Draw all parameters, those of submodules included, anew."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=std)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        # Outer modules last: they may override how a plain linear map starts.
        for module in reversed(list(self.modules())):
            if isinstance(module, Initialised):
                with torch.no_grad():
                    for parameter, value in module.initial_values(std):
                        parameter.copy_(value)


class MemoryLayer(Initialised, ABC, Generic[State]):
    """A sequence layer (x, state) -> (y, state) with a memory of fixed or growing size.

    Legend: B rows, T tokens, N sequences (B, or as many as are packed).
    """

    hidden_size: int

    def forward(
        self,
        x: Tensor,
        state: State | None = None,
        *,
        mask: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
    ) -> tuple[Tensor, State]:
        """Read T tokens, starting from ``state``: a prefill, a further piece, or a single step.

        Args:
            x: (B, T, hidden_size).
            state: what an earlier call returned for the same N sequences, or None to start empty.
                It is never changed.
            mask: (B, T), true (or 1) at tokens and false at padding. Padding may stand anywhere; it
                is never read and its output is zero.
            cu_seqlens: (N + 1,) offsets of N sequences packed into B = 1.

        Returns:
            y (B, T, hidden_size) and the new state.

        Raises:
            TypeError, ValueError: a sentence that names the argument: wrong shapes, offsets that do
                not fit, a state of other sequences, or both mask and cu_seqlens.
        """
        if x.ndim != 3 or x.shape[-1] != self.hidden_size:
            raise ValueError(
                f"x must have shape (B, T, hidden_size) = (B, T, {self.hidden_size}); "
                f"got {tuple(x.shape)}."
            )
        lengths = sequence_lengths(cu_seqlens, *x.shape[:2])
        sequences = x.shape[0] if lengths is None else len(lengths)
        if state is not None and state.sequences != sequences:
            raise ValueError(
                f"state must be of N = {sequences} sequences, as many as x; "
                f"got one of {state.sequences}."
            )
        if mask is None:
            offsets = None if cu_seqlens is None else cu_seqlens.to(x.device)
            return self.process(x, state, offsets)
        if cu_seqlens is not None:
            raise ValueError("mask and cu_seqlens exclude each other: packed rows have no padding.")
        if mask.shape != x.shape[:2]:
            raise ValueError(
                f"mask must have shape (B, T) = {tuple(x.shape[:2])}; got {tuple(mask.shape)}."
            )
        mask = mask.bool()
        y, state = self.process(pack(x, mask), state, offsets_of(mask))
        return unpack(y, mask), state

    @abstractmethod
    def process(
        self, x: Tensor, state: State | None, cu_seqlens: Tensor | None
    ) -> tuple[Tensor, State]:
        """``forward`` without padding: rows are full, or packed into one."""

    @abstractmethod
    def initial_state(
        self, sequences: int, *, dtype: torch.dtype, device: torch.device | str | None = None
    ) -> State:
        """The empty state: what ``state=None`` stands for.

        Args:
            sequences: N.
            dtype: of the inputs x; what a state keeps in higher precision it keeps so here.
            device: where it lies.
        """

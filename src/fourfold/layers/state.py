"""What a layer remembers: small frozen records of named tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Final, TypeVar

import torch
from torch import Tensor

State = TypeVar("State", bound="LayerState")

NOWHERE: Final = -1
"""The position of a slot of attention that holds nothing."""


@dataclass(frozen=True)
class LayerState:
    """The state of one layer for N sequences; the first dimension of every tensor is N.

    A state is never changed in place: a layer returns a new one. To keep, to fork or to roll back
    is therefore to hold on to the old record, which costs nothing.
    """

    def named_tensors(self) -> dict[str, Tensor]:
        """The tensors by name, without those that are absent."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    def map(self: State, function: Callable[[Tensor], Tensor]) -> State:
        """A state of the same kind with ``function`` applied to every tensor."""
        return replace(self, **{name: function(x) for name, x in self.named_tensors().items()})

    def select(self: State, index: Tensor) -> State:
        """The sequences at ``index`` (long, any length), in that order."""
        return self.map(lambda x: x.index_select(0, index.to(x.device)))

    def resume(self: State, index: Tensor) -> State:
        """The sequences at ``index``, in that order; at −1 one that has read nothing."""
        return self.select(index.clamp(min=0)).emptied(index.to(self.device) < 0)

    def emptied(self: State, rows: Tensor) -> State:
        """As it is, but the sequences at ``rows`` (N,) (boolean) have read nothing."""
        return self.map(lambda x: x.masked_fill(rows.view(-1, *[1] * (x.ndim - 1)), 0))

    @property
    def device(self) -> torch.device:
        """Where it lies."""
        return next(iter(self.named_tensors().values())).device

    @property
    def sequences(self) -> int:
        """N."""
        return len(next(iter(self.named_tensors().values())))

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors together."""
        return sum(x.numel() * x.element_size() for x in self.named_tensors().values())

    @property
    def numbers(self) -> int:
        """How many numbers all tensors hold together."""
        return sum(x.numel() for x in self.named_tensors().values())


@dataclass(frozen=True)
class RecurrentState(LayerState):
    """State of the delta family.

    memory: (N, H, S, D), float32 or float64. convolution: (N, width − 1, channels), the last inputs
    of the short convolution, or None where the layer has none.
    """

    memory: Tensor
    convolution: Tensor | None = None


@dataclass(frozen=True)
class AttentionState(LayerState):
    """State of attention: keys and values (N, G, L, Dh) of G key/value heads, positions (N, L).

    A position of −1 (``NOWHERE``) marks a slot that holds nothing.
    """

    keys: Tensor
    values: Tensor
    positions: Tensor

    def emptied(self, rows: Tensor) -> AttentionState:
        held = self.positions.masked_fill(rows[:, None], NOWHERE)
        slots = (held != NOWHERE).any(0).nonzero().flatten()
        return AttentionState(
            keys=self.keys.index_select(2, slots),
            values=self.values.index_select(2, slots),
            positions=held.index_select(1, slots),
        )


@dataclass(frozen=True)
class LSTMState(LayerState):
    """State of an LSTM: hidden and cell, (N, hidden_size)."""

    hidden: Tensor
    cell: Tensor

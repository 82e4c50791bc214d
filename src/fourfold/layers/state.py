"""What a layer remembers: small frozen records of named tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import TypeVar

from torch import Tensor

State = TypeVar("State", bound="LayerState")


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

    A position of −1 marks a slot that holds nothing.
    """

    keys: Tensor
    values: Tensor
    positions: Tensor


@dataclass(frozen=True)
class LSTMState(LayerState):
    """State of an LSTM: hidden and cell, (N, hidden_size)."""

    hidden: Tensor
    cell: Tensor

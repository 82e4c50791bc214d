"""What a layer remembers: small frozen records of named tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from fourfold.ops.reach import NOWHERE

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

    def with_tensors(self: State, tensors: Mapping[str, Tensor]) -> State:
        """A state of the same kind with other tensors, by the names of ``named_tensors``."""
        return replace(self, **tensors)

    def map(self: State, function: Callable[[Tensor], Tensor]) -> State:
        """A state of the same kind with ``function`` applied to every tensor."""
        return self.with_tensors({name: function(x) for name, x in self.named_tensors().items()})

    def select(self: State, index: Tensor) -> State:
        """The sequences at ``index`` (long, any length), in that order."""
        return self.map(lambda x: x.index_select(0, index.to(x.device)))

    def resume(self: State, index: Tensor) -> State:
        """The sequences at ``index``, in that order; at −1 one that has read nothing."""
        return self.select(index.clamp(min=0)).emptied(index.to(self.device) < 0)

    def emptied(self: State, rows: Tensor) -> State:
        """As it is, but the sequences at ``rows`` (N,) (boolean) have read nothing.

        To be overridden where having read nothing is not zero.
        """
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


def joined(states: Sequence[State], numbers: Sequence[int]) -> State:
    """States of one kind as one; ``numbers`` says which of its sequences each is, all in a row.

    Where some hold more pairs than others, the others get slots that hold nothing.
    """
    named = [state.named_tensors() for state in states]
    order = torch.tensor(numbers).argsort()
    return (
        states[0]
        .with_tensors({name: _stacked([own[name] for own in named], name) for name in named[0]})
        .select(order)
    )


def _stacked(tensors: list[Tensor], name: str) -> Tensor:
    sizes = [max(x.shape[dim] for x in tensors) for dim in range(1, tensors[0].ndim)]
    nothing = NOWHERE if name.endswith("positions") else 0

    def filled(x: Tensor) -> Tensor:
        missing = [size - own for size, own in zip(sizes, x.shape[1:], strict=True)]
        pads = [part for more in reversed(missing) for part in (0, more)]
        return F.pad(x, pads, value=nothing) if any(missing) else x

    return torch.cat([filled(x) for x in tensors])


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
        return replace(self, positions=held).keep(held != NOWHERE)

    def keep(self, wanted: Tensor) -> AttentionState:
        """Without the slots that no sequence wants, by (N, L) (boolean)."""
        slots = wanted.any(0).nonzero().flatten()
        return AttentionState(
            keys=self.keys.index_select(2, slots),
            values=self.values.index_select(2, slots),
            positions=self.positions.index_select(1, slots),
        )


@dataclass(frozen=True)
class LSTMState(LayerState):
    """State of an LSTM: hidden and cell, (N, hidden_size)."""

    hidden: Tensor
    cell: Tensor


@dataclass(frozen=True)
class PairState(LayerState):
    """State of a memory of pairs.

    keys, values: (N, L, H, Dh) of pairs that are whole; positions (N, L), −1 where there is none.
    recurrence: (N, H, Dh), k̄ behind the last token. pending_key, pending_value: (N, H, Dh), of the
    last token, whose pair waits for its successor. position: (N,) of the last token, −1 before the
    first.
    """

    keys: Tensor
    values: Tensor
    positions: Tensor
    recurrence: Tensor
    pending_key: Tensor
    pending_value: Tensor
    position: Tensor

    def emptied(self, rows: Tensor) -> PairState:
        emptied = super().emptied(rows)
        positions = self.positions.masked_fill(rows[:, None], NOWHERE)
        position = self.position.masked_fill(rows, NOWHERE)
        return replace(emptied, positions=positions, position=position).reachable(None)

    def reachable(self, window: int | None) -> PairState:
        """Without the slots that no later token can read in any sequence."""
        within = self.positions != NOWHERE
        if window is not None:
            within = within & (self.positions > self.position[:, None] + 1 - window)
        slots = within.any(0)
        if bool(slots.all()):
            return self
        kept = slots.nonzero().flatten()
        return replace(
            self,
            keys=self.keys.index_select(1, kept),
            values=self.values.index_select(1, kept),
            positions=self.positions.index_select(1, kept),
        )


@dataclass(frozen=True)
class SideBySideState(LayerState):
    """States of memories that stand side by side in one block, by name."""

    memories: Mapping[str, LayerState]

    def named_tensors(self) -> dict[str, Tensor]:
        return {
            f"{name}.{own}": tensor
            for name, state in self.memories.items()
            for own, tensor in state.named_tensors().items()
        }

    def with_tensors(self, tensors: Mapping[str, Tensor]) -> SideBySideState:
        return SideBySideState(
            {
                name: state.with_tensors(
                    {own: tensors[f"{name}.{own}"] for own in state.named_tensors()}
                )
                for name, state in self.memories.items()
            }
        )

    def emptied(self, rows: Tensor) -> SideBySideState:
        return SideBySideState({name: state.emptied(rows) for name, state in self.memories.items()})

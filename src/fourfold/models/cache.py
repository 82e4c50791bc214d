"""The states of all layers, in the form that transformers' generation carries along."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from transformers import Cache

from fourfold.layers import LayerState


class FourfoldCache(Cache):
    """One state a layer, and how many tokens have been read.

    A model call advances the cache that it is given, as transformers expects. The states themselves
    are never changed in place, so ``fork`` is free and forks cannot disturb each other.

    Attributes:
        states: the state of each layer, None before the first token.
        tokens_seen: positions read by every row, padding included.
        lengths: (N,) tokens read by each row, without padding; None before the first.
        notes: (N,) whole numbers that whoever looks on has put at the rows, −1 for none. They go
            with the rows wherever these go, so that a row is known again in a fork.
    """

    def __init__(self, num_layers: int) -> None:
        self.states: list[LayerState | None] = [None] * num_layers
        self.tokens_seen = 0
        self.lengths: Tensor | None = None
        self.notes: WeakKeyDictionary[Any, Tensor] = WeakKeyDictionary()

    def advance(self, states: Sequence[LayerState | None], *, tokens: int, lengths: Tensor) -> None:
        """Take up what a call has made.

        Args:
            states: of each layer, behind the call.
            tokens: positions of it, padding included.
            lengths: (N,) tokens of it in each row, without padding.
        """
        self.states = list(states)
        self.tokens_seen += tokens
        self.lengths = lengths if self.lengths is None else self.lengths + lengths

    def fork(self) -> FourfoldCache:
        """A cache that goes on from here on its own."""
        fork = FourfoldCache(len(self.states))
        fork.states, fork.tokens_seen = list(self.states), self.tokens_seen
        fork.lengths, fork.notes = self.lengths, self.notes.copy()
        return fork

    def named_tensors(self) -> dict[str, Tensor]:
        """All tensors, as "layers.0.memory" and so on."""
        return {
            f"layers.{index}.{name}": tensor
            for index, state in enumerate(self.states)
            if state is not None
            for name, tensor in state.named_tensors().items()
        }

    @property
    def nbytes(self) -> int:
        """Bytes of all states together, for all rows."""
        return sum(state.nbytes for state in self.states if state is not None)

    @property
    def numbers(self) -> int:
        """How many numbers all states hold together, for all rows."""
        return sum(state.numbers for state in self.states if state is not None)

    def select(self, index: Tensor) -> None:
        """Keep the rows at ``index`` (long), in that order; rows may repeat."""
        self.states = [None if state is None else state.select(index) for state in self.states]
        self._number(lambda x, _: x.index_select(0, index.to(x.device)))

    def resume(self, index: Tensor) -> None:
        """Keep the rows at ``index``, in that order; at −1 stands one that has read nothing."""
        self.states = [None if state is None else state.resume(index) for state in self.states]

        def resumed(x: Tensor, of_none: int) -> Tensor:
            rows = index.to(x.device)
            return x.index_select(0, rows.clamp(min=0)).masked_fill(rows < 0, of_none)

        self._number(resumed)

    def _number(self, at: Callable[[Tensor, int], Tensor]) -> None:
        """Let ``at`` say what each new row has, given what the old ones had and what one has that
        has read nothing."""
        if self.lengths is not None:
            self.lengths = at(self.lengths, 0)
        for owner, numbers in list(self.notes.items()):
            self.notes[owner] = at(numbers, -1)

    def detach(self) -> None:
        """Let no gradient flow from what is read next into what was read before."""
        self.states = [None if state is None else state.map(Tensor.detach) for state in self.states]

    @property
    def batch_size(self) -> int:
        """Rows, or −1 before the first token."""
        return next((len(tensor) for tensor in self.named_tensors().values()), -1)

    def __deepcopy__(self, memo: dict[int, Any]) -> FourfoldCache:
        return self.fork()

    def __repr__(self) -> str:
        return f"FourfoldCache({len(self)} layers, {self.tokens_seen} tokens, {self.nbytes} bytes)"

    def __len__(self) -> int:
        return len(self.states)

    def __iter__(self) -> Iterable[LayerState | None]:
        return iter(self.states)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.tokens_seen

    def get_max_length(self, layer_idx: int | None = None) -> int:
        return -1

    def has_previous_state(
        self, layer_idx: int | None = None, state_idx: int | None = None
    ) -> bool:
        return self.tokens_seen > 0

    def reorder_cache(self, beam_idx: Tensor) -> None:
        self.select(beam_idx)

    def batch_select_indices(self, indices: Tensor) -> None:
        self.select(indices)

    def batch_repeat_interleave(self, repeats: int) -> None:
        rows = torch.arange(max(self.batch_size, 0))
        self.select(rows.repeat_interleave(repeats))

    def reset(self) -> None:
        self.states = [None] * len(self.states)
        self.tokens_seen = 0
        self.lengths = None
        self.notes.clear()

    def crop(self, tokens_to_remove: int) -> None:
        raise NotImplementedError(
            "A recurrent state cannot be cropped: what was read is folded into it. "
            "Keep a fork() from before, or use Session.mark() and Session.rollback()."
        )

    @property
    def is_croppable(self) -> bool:
        return False

    @property
    def is_compileable(self) -> bool:
        return False

    @property
    def is_initialized(self) -> bool:
        return self.tokens_seen > 0

    @property
    def is_sliding(self) -> list[bool]:
        return [False] * len(self.states)

    @property
    def is_linear(self) -> list[bool]:
        return [False] * len(self.states)

    @property
    def is_dummy(self) -> list[bool]:
        return [False] * len(self.states)

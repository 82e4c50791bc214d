"""How sequences are cut into chunks, so that one scan serves equal and packed sequences alike.

Legend: B rows, T tokens, N sequences, C tokens a chunk, M chunks in all, H heads, X anything.

Chunks are ordered by their place in the sequence first: all first chunks, then all second chunks,
and so on, the longest sequence first in each group. Step i of the scan then works on one slice, and
a sequence that has ended drops off the end of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor


class ChunkLayout(ABC):
    """A cut of N sequences into chunks; padding slots hold zeros."""

    steps: list[int]
    """Number of sequences that have an i-th chunk, for each i; never increasing."""

    @abstractmethod
    def split(self, x: Tensor) -> Tensor:
        """(B, T, H, X) -> (M, H, C, X)."""

    @abstractmethod
    def join(self, y: Tensor) -> Tensor:
        """(M, H, C, X) -> (B, T, H, X), without the padding slots."""

    @abstractmethod
    def sort(self, state: Tensor) -> Tensor:
        """(N, ...) in the order given -> the same, longest sequence first."""

    @abstractmethod
    def unsort(self, state: Tensor) -> Tensor:
        """Undo ``sort``."""


class EqualChunks(ChunkLayout):
    """B sequences of T tokens each."""

    def __init__(self, batch: int, tokens: int, chunk_size: int) -> None:
        self._batch, self._tokens, self._chunk_size = batch, tokens, chunk_size
        self.steps = [batch] * (-(-tokens // chunk_size))

    def split(self, x: Tensor) -> Tensor:
        padding = len(self.steps) * self._chunk_size - self._tokens
        if padding:  # not by F.pad, which in torch 2.9 refuses a view of no columns
            x = torch.cat([x, x.new_zeros(x.shape[0], padding, *x.shape[2:])], 1)
        x = x.unflatten(1, (len(self.steps), self._chunk_size))
        return x.permute(1, 0, 3, 2, 4).flatten(0, 1)

    def join(self, y: Tensor) -> Tensor:
        y = y.unflatten(0, (len(self.steps), self._batch))
        return y.permute(1, 0, 3, 2, 4).flatten(1, 2)[:, : self._tokens]

    def sort(self, state: Tensor) -> Tensor:
        return state

    def unsort(self, state: Tensor) -> Tensor:
        return state


class PackedChunks(ChunkLayout):
    """N sequences of any length, the empty one included, packed in one row."""

    def __init__(self, lengths: list[int], chunk_size: int, device: torch.device) -> None:
        order = sorted(range(len(lengths)), key=lambda n: -lengths[n])
        starts = torch.tensor([0, *lengths]).cumsum(0).tolist()
        counts = [-(-lengths[n] // chunk_size) for n in order]
        self.steps = [sum(count > i for count in counts) for i in range(max(counts, default=0))]
        self._chunk_size = chunk_size
        self._order = torch.tensor(order, dtype=torch.long, device=device)
        self._inverse = torch.argsort(self._order)
        # One row a chunk: its first token and the end of its sequence.
        chunks = torch.tensor(
            [
                (starts[n] + i * chunk_size, starts[n] + lengths[n])
                for i, width in enumerate(self.steps)
                for n in order[:width]
            ],
            dtype=torch.long,
        ).reshape(-1, 2)
        slots = chunks[:, :1] + torch.arange(chunk_size)
        filled = slots < chunks[:, 1:]
        self._token_of_slot = torch.where(filled, slots, starts[-1]).flatten().to(device)
        self._slot_of_token = torch.empty(starts[-1], dtype=torch.long)
        self._slot_of_token[slots[filled]] = filled.flatten().nonzero().flatten()
        self._slot_of_token = self._slot_of_token.to(device)

    def split(self, x: Tensor) -> Tensor:
        with_padding = torch.cat([x[0], x.new_zeros(1, *x.shape[2:])])
        chunks = with_padding.index_select(0, self._token_of_slot)
        return chunks.unflatten(0, (-1, self._chunk_size)).transpose(1, 2)

    def join(self, y: Tensor) -> Tensor:
        return y.transpose(1, 2).flatten(0, 1).index_select(0, self._slot_of_token)[None]

    def sort(self, state: Tensor) -> Tensor:
        return state.index_select(0, self._order)

    def unsort(self, state: Tensor) -> Tensor:
        return state.index_select(0, self._inverse)


def chunk_layout(
    *, batch: int, tokens: int, lengths: list[int] | None, chunk_size: int, device: torch.device
) -> ChunkLayout:
    """The layout for B rows of T tokens, or for packed sequences of the given ``lengths``."""
    if lengths is None:
        return EqualChunks(batch, tokens, chunk_size)
    return PackedChunks(lengths, chunk_size, device)

"""Windows of tokens for training and measuring, as a row of lanes that read side by side.

A lane reads documents one after another and takes the next one of the order when it is through.
What a window holds is a function of the order, the number of lanes and the window's length, whoever
reads which lanes: two processes read what one would.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fourfold.data.order import Order, TokenDocument
from fourfold.ops.pointwise import IGNORED
from fourfold.settings import one_of

Memory = Literal["window", "document", "stream"]
"""Where a memory starts empty: at every window and every document; at every document, its state
carried from window to window; or only at the first."""

MEMORIES: tuple[Memory, ...] = get_args(Memory)


def check_memory(name: str) -> Memory:
    """``name``, if it says where a memory starts empty.

    Raises:
        ValueError: a sentence with the names.
    """
    return one_of("memory", name, MEMORIES)


@dataclass(frozen=True)
class Window:
    """The next tokens of some lanes, one lane after another, and each cut at its documents.

    Attributes:
        tokens: (1, T) long.
        targets: (T,) long, the token that follows each in its document, or IGNORED.
        positions: (T,) long, how many tokens the memory has read before each.
        cu_seqlens: (N + 1,) long, where each of N sequences starts.
        origins: (N,) long, the lane whose memory a sequence goes on from; −1 starts empty.
        last: (lanes,) long, the sequence that each lane ends with: its state is the lane's memory.
        bytes: () float32, of the text that the targets stand for: each token of a document, its end
            of text too, stands for an equal share of its text.
    """

    tokens: Tensor
    targets: Tensor
    positions: Tensor
    cu_seqlens: Tensor
    origins: Tensor
    last: Tensor
    bytes: Tensor

    def to(self, device: torch.device | str) -> Window:
        """The same window there."""
        return Window(**{name: tensor.to(device) for name, tensor in vars(self).items()})

    @property
    def whole(self) -> bool:
        """Whether each lane is one sequence, and all are of one length, not none."""
        lengths = self.cu_seqlens.diff()
        return len(self.origins) == len(self.last) and bool(
            lengths[0] > 0 and (lengths == lengths[0]).all()
        )


@dataclass
class _Lane:
    """document: what it reads, from offset on. read: tokens that its memory has read."""

    document: TokenDocument | None = None
    offset: int = 0
    read: int = 0


@dataclass(frozen=True)
class _Piece:
    """A part of a document: its tokens from start on; before: tokens that the memory has read."""

    document: TokenDocument
    start: int
    count: int
    before: int


@dataclass(frozen=True)
class Position:
    """How far all lanes had come when they were asked; what is read since does not change it."""

    order: dict[str, Any]
    lanes: tuple[_Lane, ...]

    def state(self) -> dict[str, Any]:
        """The same as JSON can hold it."""
        return {
            "order": self.order,
            "lanes": [
                {
                    "document": None if lane.document is None else lane.document.reference(),
                    "offset": lane.offset,
                    "read": lane.read,
                }
                for lane in self.lanes
            ],
        }


class Lanes(Iterator[Window]):
    """Cuts the documents of an order into windows; ends with the order, if it has an end.

    Args:
        order: the documents.
        lanes: how many read side by side.
        length: tokens of a lane in a window, fewer where the order ends.
        memory: where it starts empty.
        mine: the lanes whose tokens are wanted here, if not all; the others are only kept track of.
    """

    def __init__(
        self,
        order: Order,
        *,
        lanes: int,
        length: int,
        memory: Memory,
        mine: Sequence[int] | None = None,
    ) -> None:
        self.order, self.length, self.memory = order, length, memory
        self.mine = range(lanes) if mine is None else mine
        self._lanes = [_Lane() for _ in range(lanes)]

    def __next__(self) -> Window:
        """The next window; T = length times the lanes that are wanted, until the order ends."""
        filled = [self._advance(lane) for lane in self._lanes]
        if not any(filled):
            raise StopIteration
        tokens: list[npt.NDArray[np.int64]] = [np.empty(0, dtype=np.int64)]
        targets: list[npt.NDArray[np.int64]] = [np.empty(0, dtype=np.int64)]
        positions: list[npt.NDArray[np.int64]] = [np.empty(0, dtype=np.int64)]
        lengths: list[int] = []
        origins: list[int] = []
        last: list[int] = []
        share = 0.0
        for index, number in enumerate(self.mine):
            begun = False
            for piece in filled[number]:
                stop = min(piece.start + piece.count + 1, piece.document.length)
                read = piece.document.tokens(piece.start, stop)
                following = np.full(piece.count, IGNORED, dtype=np.int64)
                following[: len(read) - 1] = read[1:]
                share += (len(read) - 1) * piece.document.size / piece.document.length
                tokens.append(read[: piece.count])
                targets.append(following)
                positions.append(np.arange(piece.before, piece.before + piece.count))
                if begun and piece.before:
                    lengths[-1] += piece.count
                else:
                    lengths.append(piece.count)
                    origins.append(index if piece.before else -1)
                begun = True
            if not begun:  # a lane that has come to its end keeps its memory
                lengths.append(0)
                origins.append(index)
            last.append(len(lengths) - 1)
        return Window(
            tokens=torch.from_numpy(np.concatenate(tokens))[None],
            targets=torch.from_numpy(np.concatenate(targets)),
            positions=torch.from_numpy(np.concatenate(positions)),
            cu_seqlens=torch.tensor([0, *np.cumsum(lengths).tolist()]),
            origins=torch.tensor(origins),
            last=torch.tensor(last),
            bytes=torch.tensor(share, dtype=torch.float32),
        )

    def _advance(self, lane: _Lane) -> list[_Piece]:
        """The pieces of documents that fill a window of ``lane``."""
        pieces: list[_Piece] = []
        missing = self.length
        if self.memory == "window":
            lane.read = 0
        while missing:
            if lane.document is None or lane.offset >= self._inputs(lane.document):
                lane.document, lane.offset = self.order.next(), 0
                if lane.document is None:
                    break
                if self.memory != "stream":
                    lane.read = 0
            count = min(missing, self._inputs(lane.document) - lane.offset)
            if count:
                pieces.append(_Piece(lane.document, lane.offset, count, lane.read))
            lane.offset += count
            lane.read += count
            missing -= count
        return pieces

    def _inputs(self, document: TokenDocument) -> int:
        """Tokens that are read: the end of text only where something may follow it."""
        return document.length if self.memory == "stream" else document.length - 1

    def position(self) -> Position:
        """How far all lanes have come."""
        return Position(self.order.state(), tuple(replace(lane) for lane in self._lanes))

    def state(self) -> dict[str, Any]:
        """How far all lanes have come; JSON can hold it."""
        return self.position().state()

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from there.

        Raises:
            ValueError: the state is of another text or another number of lanes.
        """
        if len(state["lanes"]) != len(self._lanes):
            raise ValueError(
                f"The position is one of {len(state['lanes'])} lanes; here are {len(self._lanes)}."
            )
        self.order.restore(state["order"])
        for lane, saved in zip(self._lanes, state["lanes"], strict=True):
            reference = saved["document"]
            lane.document = None if reference is None else self.order.recall(reference)
            lane.offset, lane.read = saved["offset"], saved["read"]

"""Text of a store that stands for all of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fourfold.data.store import TokenStore

GOLDEN = (5**0.5 - 1) / 2


@dataclass(frozen=True)
class StorePart:
    """Some tokens of a document, which read as one; the last of them is only predicted."""

    store: TokenStore
    number: int
    start: int
    length: int

    @property
    def size(self) -> float:
        """Its share of the document's bytes."""
        return self.store.bytes(self.number) * self.length / self.store.length(self.number)

    def tokens(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        return self.store.tokens(self.number, self.start + start, self.start + stop)

    def reference(self) -> list[int]:
        return [self.number, self.start, self.length]


class StoreSample:
    """As much of ``store`` as is asked for, once, and the same each time.

    A store that holds no more is read whole, document by document. Of another, documents are cut
    into parts, and parts are taken that lie evenly all over the text, so that a few long documents
    are more than their beginnings, and many short ones more than the first files.

    Args:
        tokens: to be predicted, at least 1.
        longest: tokens to be predicted of a part; shorter documents are parts as they are.

    Attributes:
        tokens: that are predicted when it is read, ``tokens`` or all.
    """

    def __init__(self, store: TokenStore, *, tokens: int, longest: int) -> None:
        predicted = store.lengths - 1  # the first token of a document is read only
        numbers, starts = np.arange(len(store)), np.zeros(len(store), dtype=np.int64)
        if predicted.sum() > tokens:
            pieces = -(-predicted // longest)
            numbers = np.repeat(numbers, pieces)
            within = np.arange(len(numbers)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
            starts = longest * within
            predicted = np.minimum(longest, predicted[numbers] - starts)
            order = evenly(len(numbers))
            ends = np.cumsum(predicted[order])
            count = int(np.searchsorted(ends, tokens)) + 1
            predicted[order[count - 1]] -= ends[count - 1] - tokens
            taken = np.sort(order[:count])
            numbers, starts, predicted = numbers[taken], starts[taken], predicted[taken]
        self.store, self.tokens = store, int(predicted.sum())
        self._parts = np.stack([numbers, starts, predicted + 1], axis=1)
        self._taken = 0

    def next(self) -> StorePart | None:
        if self._taken == len(self._parts):
            return None
        self._taken += 1
        return self.recall(self._parts[self._taken - 1].tolist())

    def recall(self, reference: Any) -> StorePart:
        return StorePart(self.store, *reference)

    def state(self) -> dict[str, Any]:
        return {"taken": self._taken}

    def restore(self, state: dict[str, Any]) -> None:
        self._taken = state["taken"]


def evenly(count: int) -> npt.NDArray[np.int64]:
    """0 to ``count`` - 1 in an order of which every beginning is spread evenly over them."""
    # Multiples of the golden ratio modulo 1 leave no wide gap wherever one stops.
    places = np.argsort(np.arange(count) * GOLDEN % 1, kind="stable")
    ranks = np.empty(count, dtype=np.int64)
    ranks[places] = np.arange(count)
    return ranks

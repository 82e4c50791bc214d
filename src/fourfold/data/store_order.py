"""The documents of a store, epoch after epoch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fourfold.data.store import TokenStore


@dataclass(frozen=True)
class StoreDocument:
    """A document of a store; ``reference`` is its number."""

    store: TokenStore
    number: int

    @property
    def length(self) -> int:
        return self.store.length(self.number)

    @property
    def size(self) -> int:
        return self.store.bytes(self.number)

    def tokens(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        return self.store.tokens(self.number, start, stop)

    def reference(self) -> int:
        return self.number


class StoreOrder:
    """All documents of ``store`` once in each epoch, the same in every process.

    Args:
        seed: of the order.
        shuffle: whether they come in random order, another in each epoch; otherwise as they stand.
        epochs: after which it ends; None never ends.
    """

    def __init__(
        self, store: TokenStore, *, seed: int, shuffle: bool, epochs: int | None = None
    ) -> None:
        self.store, self.seed, self.shuffle, self.epochs = store, seed, shuffle, epochs
        self._start(epoch=0, index=0)

    def next(self) -> StoreDocument | None:
        if self._index == len(self.store):
            self._start(self._epoch + 1, 0)
        if self._epoch == self.epochs:
            return None
        number = self._index if self._numbers is None else int(self._numbers[self._index])
        self._index += 1
        return StoreDocument(self.store, number)

    def recall(self, reference: Any) -> StoreDocument:
        if not isinstance(reference, int) or not 0 <= reference < len(self.store):
            raise ValueError(f"There is no document {reference!r} in {self.store.folder}.")
        return StoreDocument(self.store, reference)

    def state(self) -> dict[str, Any]:
        return {**self._identity(), "epoch": self._epoch, "index": self._index}

    def restore(self, state: dict[str, Any]) -> None:
        for name, ours in self._identity().items():
            if state[name] != ours:
                what = "another text" if name == "store" else f"{name} {state[name]}"
                here = "this one" if name == "store" else f"{name} {ours}"
                raise ValueError(f"The position is one in {what}; here is {here}.")
        self._start(state["epoch"], state["index"])

    def _identity(self) -> dict[str, Any]:
        return {"store": self.store.fingerprint, "seed": self.seed, "shuffle": self.shuffle}

    def _start(self, epoch: int, index: int) -> None:
        self._epoch, self._index = epoch, index
        self._numbers = permutation(len(self.store), self.seed, epoch) if self.shuffle else None


def permutation(count: int, *key: int) -> npt.NDArray[np.int64]:
    """0 to ``count`` - 1 in an order that ``key`` alone decides, with every version of NumPy."""
    # Streams of bits are promised to stay as they are; what Generator makes of them is not.
    bits = np.random.Philox(np.random.SeedSequence(key)).random_raw(count)
    return np.argsort(bits, kind="stable")

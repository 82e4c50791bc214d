"""Documents from lists, for tests of what reads them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

END = 50


@dataclass(frozen=True)
class ListDocument:
    number: int
    content: np.ndarray
    bytes_each: int = 3

    @property
    def length(self):
        return len(self.content)

    @property
    def size(self):
        return self.bytes_each * self.length

    def tokens(self, start, stop):
        return self.content[start:stop]

    def reference(self):
        return self.number


class ListOrder:
    """The documents in the same order, over and over or once."""

    def __init__(self, documents, *, endless=True):
        self.endless = endless
        self.documents = [np.array([*tokens, END], dtype=np.int64) for tokens in documents]
        self.taken = 0

    def next(self):
        if not self.endless and self.taken == len(self.documents):
            return None
        self.taken += 1
        return self.recall((self.taken - 1) % len(self.documents))

    def recall(self, reference):
        return ListDocument(reference, self.documents[reference])

    def state(self):
        return {"taken": self.taken}

    def restore(self, state):
        self.taken = state["taken"]

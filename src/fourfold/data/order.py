"""The order in which documents are read, as something that can be saved and gone on with."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt


class TokenDocument(Protocol):
    """A document as tokens, the end of text last."""

    @property
    def length(self) -> int:
        """Tokens, the end of text included."""

    @property
    def size(self) -> float:
        """Bytes of its text; of a part of a document, its share of them."""

    def tokens(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        """The tokens from ``start`` to before ``stop``."""

    def reference(self) -> Any:
        """What ``Order.recall`` finds it by again; JSON can hold it."""


class Order(Protocol):
    """A row of documents; endless for training, epoch after epoch."""

    def next(self) -> TokenDocument | None:
        """The next document, or None at the end."""

    def recall(self, reference: Any) -> TokenDocument:
        """A document by its reference."""

    def state(self) -> dict[str, Any]:
        """How far it has come; JSON can hold it."""

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from there.

        Raises:
            ValueError: the state is of another text, seed or number of processes.
        """

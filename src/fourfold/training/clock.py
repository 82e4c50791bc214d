"""How long a run has taken."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Clock:
    """Seconds of a run, over all the times that it was gone on with.

    Args:
        updates, whole: of before, as ``state`` gave them.

    Attributes:
        updates: in which the model read, went back and stepped.
    """

    def __init__(self, *, updates: float = 0.0, whole: float = 0.0) -> None:
        self.updates = updates
        self._updates_before, self._whole_before = updates, whole
        self._began = time.perf_counter()

    @property
    def whole(self) -> float:
        """With validation, checkpoints and all else since training began."""
        return self._whole_before + time.perf_counter() - self._began

    @property
    def updates_now(self) -> float:
        """``updates`` without those of before."""
        return self.updates - self._updates_before

    @contextmanager
    def updating(self) -> Iterator[None]:
        """An update."""
        began = time.perf_counter()
        yield
        self.updates += time.perf_counter() - began

    def state(self) -> dict[str, float]:
        """What to go on from; JSON can hold it."""
        return {"updates": self.updates, "whole": self.whole}

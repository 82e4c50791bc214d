"""The processes of a run: how many there are, and what they do together."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from accelerate import Accelerator
from torch import Tensor

PAUSE = 0.2
"""Seconds in which gloo can let go of everything."""


class Processes:
    """All processes of a run, as one of them sees them.

    Attributes:
        count: how many.
        number: of this one, from 0.
    """

    def __init__(self, accelerator: Accelerator) -> None:
        self._accelerator = accelerator
        self.count: int = accelerator.num_processes
        self.number: int = accelerator.process_index

    @property
    def first(self) -> bool:
        """Whether this one speaks for all."""
        return self.number == 0

    def total(self, value: Tensor) -> Tensor:
        """The sum over all processes; of one alone, ``value`` itself."""
        if self.count == 1:
            return value
        total: Tensor = self._accelerator.reduce(value.to(self._accelerator.device), "sum")
        return total

    def any(self, condition: bool) -> bool:
        """Whether it holds in one process at least."""
        return bool(self.total(torch.tensor(float(condition))))

    @contextmanager
    def together(self) -> Iterator[None]:
        """What no process has behind it before all have; what fails in one fails in all.

        Raises:
            OSError, ValueError: the fault of this process, or that another one has.
        """
        fault = None
        try:
            yield
        except (OSError, ValueError) as error:
            fault = error
        if self.any(fault is not None):
            self.wait()
            raise fault or OSError("another process failed and says why")

    def wait(self) -> None:
        """Go on when all are here; what all do last before they leave the run."""
        self._accelerator.wait_for_everyone()
        if self.count > 1:
            # A thread of gloo's needs the interpreter to let go of the last tensor of ``total``. If
            # the group is taken apart before, by a thread that holds the interpreter and waits for
            # gloo's, both wait forever.
            time.sleep(PAUSE)

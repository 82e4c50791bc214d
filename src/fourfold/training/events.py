"""What a training run tells those who watch it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fourfold.training.trainer import Trainer


@dataclass(frozen=True)
class Update:
    """What an update reports.

    Attributes:
        step, steps: updates done, and of the whole run.
        tokens: read so far.
        loss: nats a token.
        bits_per_byte: the same by the bytes that a token stands for on average.
        learning_rate, gradient_norm: of this update; the norm before it is clipped.
        tokens_per_second: since the run was begun or gone on with.
    """

    step: int
    steps: int
    tokens: int
    loss: float
    bits_per_byte: float
    learning_rate: float
    gradient_norm: float
    tokens_per_second: float


@dataclass(frozen=True)
class Listener:
    """Whom a run tells what happens; in the first process only.

    Attributes:
        prepared: the text and the model are ready, and the step to go on from.
        updated: after every update.
        validated: step, and bits per byte.
        saved: a checkpoint was written.
    """

    prepared: Callable[[Trainer, int], None] = lambda trainer, step: None
    updated: Callable[[Update], None] = lambda update: None
    validated: Callable[[int, float], None] = lambda step, bits: None
    saved: Callable[[Path], None] = lambda path: None


class Stopped(Exception):  # noqa: N818 – no error, but what was asked for
    """A run was stopped by its user and can be gone on with.

    Attributes:
        step: updates done, all of them saved.
    """

    def __init__(self, step: int) -> None:
        super().__init__(f"Stopped after step {step}.")
        self.step = step

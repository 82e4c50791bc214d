"""What a training run tells those who watch it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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
        bits_per_byte: the same by the bytes that the tokens stand for, see ``Window.bytes``.
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
        validated: bits per byte.
        noted: a sentence of what is not as it was left; the run goes on.
    """

    prepared: Callable[[Trainer, int], None] = lambda trainer, step: None
    updated: Callable[[Update], None] = lambda update: None
    validated: Callable[[float], None] = lambda bits: None
    noted: Callable[[str], None] = lambda sentence: None


class Stopped(Exception):  # noqa: N818 – no error, but what was asked for
    """A run was stopped by its user and can be gone on with.

    Attributes:
        step: updates done, all of them saved.
    """

    def __init__(self, step: int) -> None:
        super().__init__(f"Stopped after step {step}.")
        self.step = step

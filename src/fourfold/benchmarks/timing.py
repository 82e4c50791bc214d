"""Several contestants timed in one run, turn by turn, so that a noisy moment hits them all."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import torch

Turn = Callable[[], object]

TURN_SECONDS = 0.05
"""Least length of a turn: a quicker contestant is called several times in it."""


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """The lower and the upper one, interpolated between values."""
    if len(values) == 1:
        return values[0], values[0]
    lower, _, upper = statistics.quantiles(values, n=4, method="inclusive")
    return lower, upper


@dataclass(frozen=True)
class Timing:
    """Seconds of one call, once for each round."""

    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    @property
    def quartiles(self) -> tuple[float, float]:
        return quartiles(self.rounds)

    def per(self, units: int) -> Timing:
        """Seconds of one of ``units`` that each call consists of."""
        return Timing(tuple(seconds / units for seconds in self.rounds))

    def record(self) -> dict[str, Any]:
        """In milliseconds, for a result file."""
        return {
            "median_ms": 1e3 * self.median,
            "quartiles_ms": [1e3 * x for x in self.quartiles],
            "rounds_ms": [1e3 * x for x in self.rounds],
        }


@dataclass(frozen=True)
class Measured:
    """What ``alternate`` returns.

    Attributes:
        timings: by name, of those that took part in every round.
        dropped: by name, a sentence: why another did not.
    """

    timings: dict[str, Timing] = field(default_factory=dict)
    dropped: dict[str, str] = field(default_factory=dict)


def alternate(
    turns: Mapping[str, Turn],
    rounds: int,
    *,
    limit: float = math.inf,
    turn_seconds: float = TURN_SECONDS,
    device: str = "cpu",
    clock: Callable[[], float] = perf_counter,
) -> Measured:
    """Time A B C, A B C, ... after two calls of each that do not count.

    The first call compiles what there is to compile and decides who is dropped: whoever fails, or
    takes longer than ``limit``. The second says how many calls make a turn.

    Args:
        turns: what to call, by name, in this order.
        rounds: turns of each that count.
        limit: seconds that the first call may take.
        turn_seconds: least length of a turn; 0 makes it a single call.
        device: waited for before the clock is read.
        clock: seconds.
    """
    measured = Measured()

    def seconds(turn: Turn, calls: int = 1) -> float:
        _wait(device)
        began = clock()
        for _ in range(calls):
            turn()
        _wait(device)
        return (clock() - began) / calls

    calls: dict[str, int] = {}
    for name, turn in turns.items():
        try:
            first = seconds(turn)
            if first > limit:
                measured.dropped[name] = (
                    f"one call took {first:.3g} s, more than the limit of {limit:g} s."
                )
                continue
            calls[name] = max(1, math.ceil(turn_seconds / max(seconds(turn), 1e-9)))
        except (RuntimeError, AssertionError) as error:
            measured.dropped[name] = f"it failed: {type(error).__name__}: {str(error)[:200]}"
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, count in calls.items():
            taken[name].append(seconds(turns[name], count))
    measured.timings.update({name: Timing(tuple(values)) for name, values in taken.items()})
    return measured


def _wait(device: str) -> None:
    """A GPU works on after a call has returned."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)

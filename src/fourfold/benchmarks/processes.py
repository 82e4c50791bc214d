"""Two versions of the library against each other, each in a process of its own."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any, Protocol

import fourfold
from fourfold.benchmarks import training_step
from fourfold.benchmarks.timing import quartiles

PRESENT = Path(fourfold.__file__).parents[1]
"""The src folder of the code that runs."""


class Trainer(Protocol):
    """A version of the library, ready to train."""

    def start(self) -> dict[str, Any]:
        """Build the models; returns where the code lies, and its commit."""

    def step(self) -> dict[str, float]:
        """Milliseconds of one training step of each model, by name."""

    def close(self) -> None:
        """Let go of it."""


class Child:
    """``training_step`` in a process that imports fourfold from ``source`` and waits for its turn.

    Args:
        source: a src folder.
        settings: the script's arguments, by name.

    Raises:
        ValueError: there is no fourfold in it, or the process failed.
    """

    def __init__(self, source: Path, settings: Mapping[str, int]) -> None:
        self.source = source.resolve()
        if not (self.source / "fourfold" / "__init__.py").exists():
            raise ValueError(f"{source} holds no fourfold; give the src folder of a checkout.")
        arguments = [part for name, value in settings.items() for part in (f"--{name}", str(value))]
        # Given as text: as a file it would put this package's folder first on the path.
        script = Path(training_step.__file__).read_text(encoding="utf-8")
        self.process = subprocess.Popen(
            [sys.executable, "-c", script, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=self.source,
            env=os.environ | {"PYTHONPATH": str(self.source)},
        )

    def start(self) -> dict[str, Any]:
        """Wait for its models; returns the commit of its code."""
        runs = self._answer()
        package = runs.pop("package")  # a path of this machine, which no result needs
        if not Path(package).is_relative_to(self.source):
            raise ValueError(f"The process was to use {self.source}, but used {package}.")
        return runs

    def step(self) -> dict[str, float]:
        """Milliseconds of one training step of each model, by name."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it ended: there will be no answer either
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        """Close its input, with which it ends, and wait for that."""
        self.process.communicate()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise ValueError(f"Training with the fourfold in {self.source} failed; see above.")
        return json.loads(line)


def compare_versions(
    baseline: Path,
    start: Callable[[Path], Trainer],
    *,
    pairs: int,
    warmup: int,
    steps: int,
    present: Path = PRESENT,
) -> dict[str, Any]:
    """Two processes side by side that train in turn, step by step; several such pairs.

    Args:
        baseline, present: src folders.
        start: a process of the fourfold of a src folder.
        pairs: pairs of processes, one after the other.
        warmup: turns of each process that do not count.
        steps: turns that do.

    Returns:
        for both versions the median milliseconds of a step of each model and of the sum over
        models, over all turns of all pairs; the ratio of the two sums, above 1 if the present is
        faster; median and quartiles of that ratio turn by turn; and all times.
    """
    sources = {"baseline": baseline, "present": present}
    runs: dict[str, dict[str, Any]] = {}
    taken: dict[str, list[dict[str, float]]] = {name: [] for name in sources}
    for _ in range(pairs):
        with ExitStack() as stack:
            trainers = {
                name: stack.enter_context(closing(start(source)))
                for name, source in sources.items()
            }
            runs = {name: trainer.start() for name, trainer in trainers.items()}
            for turn in range(warmup + steps):
                for name, trainer in trainers.items():
                    times = trainer.step()
                    if turn >= warmup:
                        taken[name].append(times)
    sums = {name: [sum(times.values()) for times in turns] for name, turns in taken.items()}
    medians = {name: statistics.median(values) for name, values in sums.items()}
    ratios = [old / new for old, new in zip(*sums.values(), strict=True)]
    return {
        "runs": runs,
        "sum_median_ms": medians,
        "models_median_ms": {name: _by_model(turns) for name, turns in taken.items()},
        "ratio": medians["baseline"] / medians["present"],
        "ratio_of_turns": {
            "median": statistics.median(ratios),
            "quartiles": quartiles(ratios),
        },
        "turns_ms": taken,
    }


def _by_model(turns: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: statistics.median(times[name] for times in turns) for name in turns[0]}

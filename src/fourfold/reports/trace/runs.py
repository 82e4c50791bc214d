"""What training runs have written about themselves, also those that are still going on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fourfold.training.log import read_log

Numbers = npt.NDArray[np.float64]

SHARE = 0.02
"""Of a run's steps, over which its loss is averaged."""

HISTORY = 0.2
"""Of the steps so far, over which it is averaged at most, so that the early fall stays as steep as
it is."""


@dataclass(frozen=True)
class Curve:
    """Measurements in the order of the steps.

    Attributes:
        tokens: read until then.
        loss: nats a token.
        bits_per_byte: of the same text.
    """

    tokens: Numbers
    loss: Numbers
    bits_per_byte: Numbers

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True)
class Run:
    """A run of ``fourfold train``, as far as it has come.

    Attributes:
        name: of its folder.
        training: a point a step.
        validation: none or more.
    """

    name: str
    training: Curve
    validation: Curve

    @property
    def span(self) -> int:
        """Steps over which the loss is averaged."""
        return max(1, round(SHARE * len(self.training)))

    def smooth(self) -> Numbers:
        """For each step the mean loss of the latest ``span`` steps, or of ``HISTORY`` if that is
        fewer."""
        loss = self.training.loss
        done = np.arange(1, len(loss) + 1)
        width = np.clip((HISTORY * done).astype(int), 1, self.span)
        sums = np.concatenate([[0.0], loss.cumsum()])
        return (sums[done] - sums[done - width]) / width

    def summary(self) -> str:
        """Where it stands, in a line."""
        said = (
            f"{self.name}: {self.training.tokens[-1]:,.0f} tokens, loss "
            f"{self.smooth()[-1]:.4f} nats a token (mean of {self.span} "
            f"step{'' if self.span == 1 else 's'}), "
        )
        if not len(self.validation):
            return said + "not validated."
        return said + f"validation {self.validation.bits_per_byte[-1]:.4f} bits per byte."


def read_runs(folders: Sequence[Path]) -> list[Run]:
    """The runs in ``folders``; those whose folders are called the same are named by their paths.

    Raises:
        FileNotFoundError: a folder without a log.
        ValueError: a log without a whole step, or one that holds something else.
    """
    names = [folder.resolve().name for folder in folders]
    return [
        _read_run(folder, name if names.count(name) == 1 else str(folder))
        for folder, name in zip(folders, names, strict=True)
    ]


def _read_run(folder: Path, name: str) -> Run:
    path = folder / "log.csv"
    if not path.exists():
        raise FileNotFoundError(
            f"{folder} holds no log.csv; give the folder of a run of fourfold train."
        )
    training = _read_curve(path)
    if not len(training):
        raise ValueError(f"{path} holds no step yet.")
    return Run(name, training, _read_curve(folder / "validation.csv"))


def _read_curve(path: Path) -> Curve:
    """The rows of ``path`` whose loss is finite; no file is no row."""
    columns = ("tokens", "loss", "bits_per_byte")
    rows = []
    for number, row in enumerate(read_log(path), start=2):
        try:
            values = [float(row[column]) for column in columns]
        except KeyError as missing:
            raise ValueError(
                f"{path} must have the columns step, {', '.join(columns)}; it lacks {missing}."
            ) from missing
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}.") from error
        if math.isfinite(values[1]):
            rows.append(values)
    return Curve(*np.array(rows, dtype=np.float64).reshape(-1, len(columns)).T)

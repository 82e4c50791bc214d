"""A table that grows by a row a step and can be taken back to an earlier step."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from fourfold.files import write_atomically
from fourfold.training.writing import writing


class Log:
    """A CSV file whose first column is the step; numbers are written so that they read back equal.

    Args:
        path: the file.
        columns: after the step.
        step: the last one to keep of what is there already; what a stopped run wrote after its
            checkpoint is written anew.

    Attributes:
        last: the row of the last step that is kept, by column; None if there is none.

    Raises:
        OSError: the file cannot be written.
        ValueError: what is there has other columns; it is left as it is.
    """

    def __init__(self, path: Path, columns: tuple[str, ...], *, step: int) -> None:
        self.path, self.columns = path, ("step", *columns)
        rows = [row for row in self._found() if int(row["step"]) <= step]
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows([row[column] for column in self.columns] for row in rows)
        with writing(path):
            write_atomically(path, text.getvalue().encode())
        self.last: Mapping[str, str] | None = rows[-1] if rows else None
        self._file: TextIO = open(path, "a", encoding="utf-8", newline="")  # noqa: SIM115

    def write(self, **values: float) -> None:
        """Add a row.

        Raises:
            OSError: it cannot be written.
        """
        with writing(self.path):
            csv.writer(self._file, lineterminator="\n").writerow(
                [repr(values[column]) for column in self.columns]
            )
            self._file.flush()

    def sync(self) -> None:
        """Bring all rows to the disk: a checkpoint must not outlive the rows of its steps.

        Raises:
            OSError: they do not get there.
        """
        with writing(self.path):
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Nothing more will be written."""
        with suppress(OSError):  # a row that did not fit the disk was told of by ``write``
            self._file.close()

    def _found(self) -> list[dict[str, str]]:
        """The rows that are there.

        Raises:
            ValueError: they are not those of this table.
        """
        rows = read_log(self.path)
        for row in rows:
            if tuple(row) != self.columns or not row["step"].isdecimal():
                raise ValueError(
                    f"{self.path} cannot be gone on with: it must have the columns "
                    f"{', '.join(self.columns)} and a number of steps in each row. Move it away to "
                    "go on without its rows."
                )
        return rows


def read_log(path: Path) -> list[dict[str, str]]:
    """The whole rows of a log, also of one that is being written or was cut off; none if it is not
    there."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    return [row for row in csv.DictReader(io.StringIO(whole)) if None not in row.values()]

"""A table that grows by a row a step and can be taken back to an earlier step."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from fourfold.files import write_atomically


class Log:
    """A CSV file whose first column is the step; numbers are written so that they read back equal.

    Args:
        path: the file.
        columns: after the step.
        step: the last one to keep of what is there already; what a stopped run wrote after its
            checkpoint is written anew.
    """

    def __init__(self, path: Path, columns: tuple[str, ...], *, step: int) -> None:
        self.path, self.columns = path, ("step", *columns)
        rows = [row for row in read_log(path) if int(row["step"]) <= step]
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows([row[column] for column in self.columns] for row in rows)
        write_atomically(path, text.getvalue().encode())
        self.last: Mapping[str, str] | None = rows[-1] if rows else None
        self._file: TextIO = open(path, "a", encoding="utf-8", newline="")  # noqa: SIM115

    def write(self, **values: float) -> None:
        """Add a row.

        Raises:
            OSError: it cannot be written.
        """
        with self._fault_named():
            csv.writer(self._file, lineterminator="\n").writerow(
                [repr(values[column]) for column in self.columns]
            )
            self._file.flush()

    def sync(self) -> None:
        """Bring all rows to the disk: a checkpoint must not outlive the rows of its steps.

        Raises:
            OSError: they do not get there.
        """
        with self._fault_named():
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Nothing more will be written."""
        with suppress(OSError):  # a row that did not fit the disk was told of by ``write``
            self._file.close()

    @contextmanager
    def _fault_named(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OSError(
                f"{self.path} cannot be written: {error.strerror}. Make room and start the same "
                "command again to go on from the last checkpoint."
            ) from error


def read_log(path: Path) -> list[dict[str, str]]:
    """The whole rows of a log, also of one that is being written or was cut off; none if it is not
    there."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    return [row for row in csv.DictReader(io.StringIO(whole)) if None not in row.values()]

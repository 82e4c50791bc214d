"""What is said when a file of a run cannot be written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Say in a sentence which file cannot be written, and how to go on.

    Raises:
        OSError: that sentence.
    """
    try:
        yield
    except OSError as error:
        raise OSError(
            f"{path} cannot be written: {error.strerror or error}. Make room and start the same "
            "command again to go on from the last checkpoint."
        ) from error

"""Token stores that were built before, and building one only once."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fourfold.data.store import TokenStore
from fourfold.data.store_writer import TEMPORARY
from fourfold.files import lock

logger = logging.getLogger("fourfold")


def data_folder(cache: Path | None) -> Path:
    """``cache``, or a folder in the user's cache, beside that of the kernels."""
    if cache is not None:
        return cache
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "fourfold" / "data"


def key_of(description: Any) -> str:
    """A name for what ``description`` says; JSON can hold it."""
    return hashlib.sha256(json.dumps(description).encode()).hexdigest()[:32]


def signature(files: Sequence[Path]) -> list[tuple[str, int, int]]:
    """What changes when a file does: its full name, size and time.

    Raises:
        OSError: a file is gone.
    """
    states = ((os.path.realpath(file), file.stat()) for file in files)
    return [(os.fsencode(name).hex(), x.st_size, x.st_mtime_ns) for name, x in states]


def stores(folder: Path, names: Sequence[str], build: Callable[[], None]) -> list[TokenStore]:
    """The stores ``names`` in ``folder``, which ``build`` makes if they are not all there.

    Processes that ask for the same build it once: the others wait for the first at a lock. Where
    the file system has no locks all of them build, and all take what was finished first. A store
    that is damaged is built again.

    Raises:
        OSError: the folder cannot be written.
    """
    found = _open(folder, names)
    if found is None:
        with _alone(folder):
            found = _open(folder, names, mend=True)
            if found is None:
                build()
                found = [TokenStore(folder / name) for name in names]
    return found


def _open(folder: Path, names: Sequence[str], mend: bool = False) -> list[TokenStore] | None:
    """The stores if all are there; with ``mend``, those that are damaged are removed."""
    found = []
    for name in names:
        try:
            found.append(TokenStore(folder / name))
        except FileNotFoundError:
            continue
        except ValueError as error:
            if mend:
                logger.warning("%s It is made again from the text.", error)
                shutil.rmtree(folder / name, ignore_errors=True)
    return found if len(found) == len(names) else None


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the lock of ``folder``; what builders that were killed left there is removed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = open(folder / "lock", "wb")  # noqa: SIM115
    except OSError as error:
        raise OSError(
            f"{folder} cannot be written: {error.strerror}; see data.cache in a recipe, or --cache."
        ) from error
    with file:
        if lock(file.fileno(), wait=True):
            for left in folder.glob(f".*{TEMPORARY}"):
                shutil.rmtree(left, ignore_errors=True)
        yield

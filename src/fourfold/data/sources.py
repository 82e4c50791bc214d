"""Which files hold text, and how one of them is opened."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

KINDS = (".txt", ".md", ".jsonl", ".parquet")
COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")
ENDINGS = f"{', '.join(KINDS)}, also with {', '.join(COMPRESSIONS)} after it"


def kind_of(path: Path) -> str | None:
    """The one of ``KINDS`` that a file is by its name, compressed or not; None if it is no text."""
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    if suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
    return suffixes[-1] if suffixes and suffixes[-1] in KINDS else None


def find_files(paths: Sequence[str | os.PathLike[str]]) -> list[Path]:
    """The files of text that ``paths`` name, those below a folder in the order of their names.

    A file that is reached twice is read once.

    Raises:
        FileNotFoundError: nothing is there.
        OSError: a folder cannot be read.
        ValueError: a file of another kind, or a folder with no file of these kinds.
    """
    found: dict[str, Path] = {}
    for path in map(Path, paths):
        for file in _below(path):
            found.setdefault(os.path.realpath(file), file)
    return list(found.values())


def _below(path: Path) -> list[Path]:
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    if path.is_file():
        if kind_of(path) is None:
            raise ValueError(f"{path} must end in {ENDINGS}.")
        return [path]
    try:  # rglob would pass over a folder that it may not read
        found = (
            Path(folder, name)
            for folder, _, names in os.walk(path, onerror=_raise)
            for name in names
        )
        files = sorted(x for x in found if kind_of(x) is not None and x.is_file())
    except OSError as error:
        name = printable(str(error.filename))
        raise OSError(f"{name} cannot be read: {error.strerror}.") from error
    if not files:
        raise ValueError(f"{path} holds no text in files that end in {ENDINGS}.")
    return files


def _raise(error: OSError) -> None:
    raise error


def printable(name: str) -> str:
    """A file name that can be shown and written: bytes that are no UTF-8 are replaced."""
    return name.encode(errors="surrogateescape").decode(errors="replace")


@contextmanager
def opened(path: Path, *kinds: type[Exception]) -> Iterator[IO[bytes]]:
    """A file as a stream of what it holds, decompressed on the way.

    Args:
        kinds: what else may be raised if it is damaged.

    Raises:
        OSError: it cannot be read.
        ValueError: it is damaged or cut off.
    """
    compression = path.suffix.lower()
    with faults_named(path, *kinds), _OPENERS.get(compression, _open_plain)(path) as file:
        yield file


@contextmanager
def faults_named(path: Path, *kinds: type[Exception]) -> Iterator[None]:
    """Turn what reading raises, and ``kinds``, into a sentence that names the file.

    Raises:
        OSError, ValueError: as ``opened``.
    """
    faults: tuple[type[Exception], ...] = (OSError, EOFError, zlib.error, lzma.LZMAError, *kinds)
    try:
        yield
    except faults as error:
        name = printable(str(path))
        # The system's errors have a number; those of the decompressors have none.
        if isinstance(error, OSError) and error.errno is not None:
            raise OSError(f"{name} cannot be read: {error.strerror}.") from error
        reason = " ".join(str(error).split()).rstrip(".")
        raise ValueError(f"{name} is damaged or cut off: {reason}.") from error


def _open_plain(path: Path) -> IO[bytes]:
    return open(path, "rb")


def _open_zst(path: Path) -> Any:
    import pyarrow

    if not pyarrow.Codec.is_available("zstd"):
        raise ValueError(f"{printable(str(path))} needs a pyarrow that was built with zstd.")
    # Closing the outermost closes all three.
    return io.BufferedReader(pyarrow.CompressedInputStream(open(path, "rb"), "zstd"))


_OPENERS: dict[str, Any] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": _open_zst,
}

"""Writing files so that a crash leaves the old file or the new one, never half."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Replace ``path`` by ``data``: a temporary file beside it, synced, then renamed over it.

    A symbolic link stays one: the file it leads to is replaced.

    Raises:
        OSError: the folder cannot be written or the disk is full; ``path`` is then as before.
    """
    target = Path(os.path.realpath(path))
    temporary = None
    try:
        descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=".", suffix=".tmp")
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            os.chmod(temporary, target.stat().st_mode & 0o777)
        else:
            follow_umask(Path(temporary))
        os.replace(temporary, target)
    except BaseException as error:
        if temporary is not None:
            os.unlink(temporary)
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    sync_folder(target.parent)


def follow_umask(path: Path) -> None:
    """Give a file that was made for its owner alone, as mkstemp and safetensors make them, the
    rights of any new file.

    Raises:
        OSError: they cannot be given.
    """
    mask = os.umask(0o077)  # cannot be asked for without setting it
    os.umask(mask)
    os.chmod(path, 0o666 & ~mask)


def digest_of(path: Path) -> str:
    """SHA-256 of what is in a file, in hexadecimal.

    Raises:
        OSError: it cannot be read.
    """
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def lock(descriptor: int, *, wait: bool) -> bool:
    """Keep other processes from locking an open file until this one closes it.

    Args:
        wait: until no other process has it locked.

    Returns:
        False where there are no locks, as on some network file systems.

    Raises:
        BlockingIOError: another process has it locked, and ``wait`` is False.
    """
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except (ImportError, OSError):
        return False
    return True


def sync_file(path: Path) -> None:
    """Bring what was written to ``path`` to the disk.

    Raises:
        OSError: it does not get there.
    """
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make the rename itself durable, where the system can: it has happened either way."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

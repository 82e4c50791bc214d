"""Compiling the workers when they are first needed, and keeping them on disk."""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numba
from numba import types

logger = logging.getLogger("fourfold")
_compiling = threading.RLock()
_ENTRY = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64)
_kept_alive: list[Any] = []
"""Machine code lasts as long as the Numba object that owns it."""
_TYPES = {"float32": types.float32, "float64": types.float64, "bfloat16": types.uint16}


def compiled(worker: str, storage: str, number: str) -> Any:
    """The compiled worker: call it, or cast it to ``c_void_p`` for its address.

    Args:
        worker: "module.function" in this package.
        storage: type of the tensors that come in and go out.
        number: type that is computed in.
    """
    with _compiling:
        return _compiled(worker, storage, number)


@cache
def _compiled(worker: str, storage: str, number: str) -> Any:
    module, name = worker.split(".")
    function = getattr(import_module(f"{__package__}.{module}"), name)
    pointers = [types.CPointer(_TYPES[kind]) for kind in (storage, number)]
    signature = types.void(*pointers, types.CPointer(types.int64), types.int64)
    callback = _with_cache(lambda keep: numba.cfunc(signature, cache=keep)(function))
    _kept_alive.append(callback)
    return _ENTRY(callback.address)


def compiled_parallel(function: Callable[..., None]) -> Any:
    """The loop over threads, compiled."""
    with _compiling:
        return _compiled_parallel(function)


@cache
def _compiled_parallel(function: Callable[..., None]) -> Any:
    signature = types.void(types.int64, types.Array(types.int64, 1, "C"), types.int64)
    return _with_cache(
        lambda keep: numba.njit(signature, parallel=True, nogil=True, cache=keep)(function)
    )


def _with_cache(compile: Callable[[bool], Any]) -> Any:
    with _said_once_if_slow():
        try:
            with _cache_folder():
                return compile(True)
        except (OSError, RuntimeError) as error:  # RuntimeError: Numba found no folder to write to
            logger.info("CPU kernels are not kept on disk: %s", error)
            return compile(False)


@cache
def cache_folder() -> Path:
    """Where compiled kernels are kept: in NUMBA_CACHE_DIR, or in the user's cache folder.

    Numba looks at the file of the entry function only, so the name of the folder holds a digest
    of all sources. A folder that is filled but read-only is copied, for Numba refuses it.
    """
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    base = numba.config.CACHE_DIR or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "fourfold" / f"kernels-{digest.hexdigest()[:16]}"
    if folder.is_dir() and not os.access(folder, os.W_OK):
        shutil.copytree(folder, _own_folder().name, dirs_exist_ok=True)
        return Path(_own_folder().name)
    return folder


@cache
def _own_folder() -> tempfile.TemporaryDirectory[str]:
    """Lasts as long as the process."""
    return tempfile.TemporaryDirectory(prefix="fourfold-kernels-")


@contextmanager
def _cache_folder() -> Iterator[None]:
    """Have Numba keep what it compiles in our folder."""
    before = numba.config.CACHE_DIR
    try:
        numba.config.CACHE_DIR = str(cache_folder())
        yield
    finally:
        numba.config.CACHE_DIR = before


@cache
def _say() -> None:
    logger.warning(
        "fourfold compiles its CPU kernels for this machine: a quarter of a minute for each number "
        "type, once; they are kept in %s.",
        cache_folder(),
    )


@contextmanager
def _said_once_if_slow() -> Iterator[None]:
    """Loading from disk takes no time; say something only if the user is made to wait."""
    timer = threading.Timer(1.0, _say)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()

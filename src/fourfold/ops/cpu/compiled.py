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
_kept_alive: list[Any] = []
_TYPES = {"float32": types.float32, "float64": types.float64, "bfloat16": types.uint16}


def compiled(worker: str, storage: str, number: str) -> Any:
    """The compiled worker as a C function.

    Args:
        worker: "module.function" in this package.
        storage: type of the tensors that come in and go out.
        number: type that is computed in.
    """
    with _compiling:
        return _compiled(worker, storage, number)


@cache
def _compiled(worker: str, storage: str, number: str) -> Any:
    integers = types.CPointer(types.int64)
    pointers = [types.CPointer(_TYPES[kind]) for kind in (storage, number)]
    return _c_function(worker, [*pointers, integers, types.int64])


@cache
def compiled_region() -> Any:
    """The function that OpenMP starts on every thread, compiled."""
    with _compiling:
        return _c_function("threads.region", [types.CPointer(types.int64)])


def _c_function(name: str, arguments: list[types.Type]) -> Any:
    module, function = name.split(".")
    body = getattr(import_module(f"{__package__}.{module}"), function)
    signature = types.void(*arguments)
    callback = _with_cache(lambda keep: numba.cfunc(signature, cache=keep)(body))
    # Machine code lasts as long as the Numba object that owns it.
    _kept_alive.append(callback)
    kinds = [ctypes.c_int64 if kind == types.int64 else ctypes.c_void_p for kind in arguments]
    return ctypes.CFUNCTYPE(None, *kinds)(callback.address)


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

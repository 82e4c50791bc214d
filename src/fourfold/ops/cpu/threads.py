"""Running a compiled worker on torch's own threads.

Two OpenMP runtimes in one process compete for the cores: the idle threads of one go on spinning
while those of the other compute. So workers are started through the runtime that torch itself is
linked against; where it offers no entry (Windows), on Python threads, which the kernels leave free
to run.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from fourfold.ops.cpu.compiled import compiled, compiled_region

_WORK_PER_THREAD = 1 << 16
"""Multiplications that pay for waking a thread."""


def worker_count(tasks: int, work: int) -> int:
    """Threads for so many independent tasks and multiplications, at most as many as torch has."""
    return max(1, min(tasks, 1 + work // _WORK_PER_THREAD, torch.get_num_threads()))


def run(worker: str, storage: str, number: str, arguments: NDArray[np.int64], workers: int) -> None:
    """Call a worker, "module.function" in this package, once for each of ``workers`` threads."""
    entry = compiled(worker, storage, number)
    address = arguments.ctypes.data
    if workers == 1:
        entry(None, None, address, 0)
    elif (parallel := _openmp()) is not None:
        parallel(_address(entry), address, workers)
    else:
        calls = [_pool().submit(entry, None, None, address, n) for n in range(1, workers)]
        entry(None, None, address, 0)
        for call in calls:
            call.result()


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(thread_name_prefix="fourfold")


@cache
def _openmp() -> Callable[[int, int, int], None] | None:
    """(worker, arguments, workers) -> None, or None where torch's runtime has no such entry."""
    suffix = {"linux": "so", "darwin": "dylib"}.get(sys.platform)
    library = Path(torch.__file__).parent / "lib" / f"libtorch_cpu.{suffix}"
    if not library.exists():
        return None
    torch_cpu = ctypes.CDLL(str(library))
    try:  # looked up in what torch is linked against
        parallel = torch_cpu.GOMP_parallel
        own_number, team_size = torch_cpu.omp_get_thread_num, torch_cpu.omp_get_num_threads
    except AttributeError:
        return None
    parallel.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
    parallel.restype = None
    region = compiled_region()

    def call(worker: int, arguments: int, workers: int) -> None:
        job = np.array(
            [worker, arguments, workers, _address(own_number), _address(team_size)], dtype=np.int64
        )
        parallel(_address(region), job.ctypes.data, workers, 0)

    return call


@intrinsic
def _ask(typing_context: Any, function: Any) -> Any:
    """Call an ``int function(void)`` at an address."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(32), [])
        target = builder.inttoptr(arguments[0], kind.as_pointer())
        return builder.sext(builder.call(target, []), ir.IntType(64))

    return types.int64(types.int64), emit


@intrinsic
def _call(typing_context: Any, function: Any, arguments: Any, worker: Any) -> Any:
    """Call the worker at an address; it knows the types behind its first two pointers."""

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointer, index = ir.IntType(8).as_pointer(), ir.IntType(64)
        kind = ir.FunctionType(ir.VoidType(), [pointer, pointer, index, index])
        target = builder.inttoptr(values[0], kind.as_pointer())
        nothing = ir.Constant(pointer, None)
        builder.call(target, [nothing, nothing, values[1], values[2]])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), emit


def region(job: Any) -> None:
    """What every OpenMP thread runs; a team may be smaller than asked for."""
    for worker in range(_ask(job[3]), job[2], _ask(job[4])):
        _call(job[0], job[1], worker)

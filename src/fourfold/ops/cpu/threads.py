"""Running a compiled worker on as many threads as torch uses.

The loop over threads is the only code that Numba compiles as parallel; workers are called through
their addresses. Compiling them as parallel too would take twice as long.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import numba
import torch
from llvmlite import ir
from numba import prange, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from fourfold.ops.cpu.compiled import compiled, compiled_parallel

_one_at_a_time = threading.Lock()
"""Numba's fallback thread pool may not be entered twice."""


@intrinsic
def _call(typing_context: Any, function: Any, arguments: Any, worker: Any) -> Any:
    """Call the worker at an address; it knows the types behind its first two pointers."""

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        address, numbers, worker = values
        pointer, index = ir.IntType(8).as_pointer(), ir.IntType(64)
        kind = ir.FunctionType(ir.VoidType(), [pointer, pointer, index.as_pointer(), index])
        target = builder.inttoptr(address, kind.as_pointer())
        nothing = ir.Constant(pointer, None)
        numbers = context.make_array(arguments)(context, builder, numbers).data
        builder.call(target, [nothing, nothing, numbers, worker])
        return context.get_dummy_value()

    return types.void(types.intp, arguments, types.intp), emit


def call_on_threads(function: int, arguments: Any, workers: int) -> None:
    for worker in prange(workers):
        _call(function, arguments, worker)


_WORK_PER_THREAD = 1 << 16


def worth(work: int) -> int:
    """Threads that so many multiplications are worth waking."""
    return 1 + work // _WORK_PER_THREAD


def worker_count(most: int) -> int:
    """Threads to use when there is work for ``most``."""
    return max(1, min(most, torch.get_num_threads(), numba.config.NUMBA_NUM_THREADS))


def run(worker: str, storage: str, number: str, arguments: NDArray[Any], workers: int) -> None:
    """Call a worker, by its name in ``workers.py``, on ``workers`` threads."""
    entry = compiled(worker, storage, number)
    if workers == 1:
        entry(None, None, arguments.ctypes.data, 0)
        return
    with _one_at_a_time:
        address = ctypes.cast(entry, ctypes.c_void_p).value
        numba.set_num_threads(workers)
        compiled_parallel(call_on_threads)(address, arguments, workers)

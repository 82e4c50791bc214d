"""How much memory a call takes beyond what it is given."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._C._profiler import _EventType
from torch.profiler import ProfilerActivity, profile

from fourfold.benchmarks.contestants import Contestant
from fourfold.benchmarks.inputs import random_inputs
from fourfold.benchmarks.shapes import Shape


def peak_bytes(call: Callable[[], object], device: str) -> int:
    """The most bytes alive at once of those that ``call`` allocates.

    On a CPU from torch's profiler, which hears of every allocation and release in torch's
    allocator: also of those inside an operator of our own, its scratch included, which a dispatch
    mode does not see; and it counts bytes, where the resident size of a process would count pages
    touched, by whatever the process did. What kernels allocate past torch is not in it: ours
    allocate nothing of a size that grows. On a GPU from the allocator's own peak.
    """
    call()  # compiles, and fills caches that stay
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        call()
        return torch.cuda.max_memory_allocated(device) - before
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # else it prints lines at every start
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        result = call()
    del result
    tree = seen.profiler.kineto_results.experimental_event_tree()  # type: ignore[union-attr]
    changes = sorted(
        (event.start_time_ns, index, event.extra_fields.alloc_size)
        for index, event in enumerate(_flat(tree))
        if event.tag == _EventType.Allocation
    )
    alive = peak = 0
    for _, _, change in changes:
        alive += change
        peak = max(peak, alive)
    return peak


def training_memory(
    contestant: Contestant, shape: Shape, *, seed: int, device: str, dtype: torch.dtype
) -> dict[str, Any]:
    """Peak memory of a forward and backward pass.

    Returns:
        bytes a token of inputs + output + their gradients; of what is allocated at the peak on top
        of the inputs and of dy, which contains the output and the gradients of the inputs; and of
        all that is alive at the peak beyond inputs, output and their gradients; the last two also
        as multiples of the first.
    """
    inputs = random_inputs(shape, seed=seed, device=device, dtype=dtype)
    prepared = contestant.prepare(inputs, shape)
    leaves = sum(x.numel() * x.element_size() for x in prepared.leaves)
    output = prepared.dy.numel() * prepared.dy.element_size()
    peak = peak_bytes(prepared.forward_backward, device)
    ends = 2 * (leaves + output)
    beyond = leaves + output + peak - ends
    tokens = shape.rows * shape.tokens
    return {
        "contestant": contestant.name,
        "inputs_output_gradients_bytes_per_token": ends / tokens,
        "allocated_at_peak_bytes_per_token": peak / tokens,
        "beyond_bytes_per_token": beyond / tokens,
        "allocated_at_peak_multiple": peak / ends,
        "beyond_multiple": beyond / ends,
    }


def _flat(events: Any) -> Iterator[Any]:
    for event in events:
        yield event
        yield from _flat(event.children)

"""``fourfold bench ops``: the operators against each other and against those of others."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from fourfold.benchmarks.attention import Attention
from fourfold.benchmarks.contestants import Contestant
from fourfold.benchmarks.decode import time_decoding
from fourfold.benchmarks.inputs import random_inputs
from fourfold.benchmarks.machine import device_model, versions
from fourfold.benchmarks.memory import training_memory
from fourfold.benchmarks.others import flash_linear_attention, titans
from fourfold.benchmarks.recurrences import (
    ATPM_FUSED,
    Recurrence,
    own_recurrences,
    transformers_recurrence,
)
from fourfold.benchmarks.shapes import SHAPES, Shape
from fourfold.benchmarks.summary import length_ratio, summarise
from fourfold.benchmarks.timing import alternate
from fourfold.results import provenance

PASSES = ("forward", "forward_backward")
MODES = (*PASSES, "lengths", "decode", "memory")
DTYPES = ("float32", "bfloat16")
NARROW, WIDE = Shape(1, 1, 2, 64, 128), Shape(1, 1, 4, 64, 128)
OPTIONAL_PACKAGES = ("numba", "triton", "flash-linear-attention", "fla-core", "titans-pytorch")


@dataclass(frozen=True)
class OpsOptions:
    """What is timed, and how often.

    Attributes:
        shapes: of the passes.
        rounds: turns of each contestant that count.
        modes: of ``MODES``: the passes over all shapes, "lengths" (forward and backward over
            ``lengths``), "decode" (single tokens), "memory" (peak of forward and backward).
        limit: seconds that a first call may take before its contestant is dropped.
        seed: of the inputs.
        device, dtype: where and in what numbers the vectors are; gates are always float32.
        length_shape, lengths: the shape whose tokens are varied, and the numbers of them.
        decode_shape, decode_batches, decode_points, decode_window: shape (B and T not used), rows,
            tokens read before, and steps timed there.
        memory_shape, memory_lengths: as for lengths.
    """

    shapes: tuple[Shape, ...] = SHAPES
    rounds: int = 7
    modes: tuple[str, ...] = MODES
    limit: float = 60.0
    seed: int = 0
    device: str = "cpu"
    dtype: str = "float32"
    length_shape: Shape = NARROW
    lengths: tuple[int, ...] = (1024, 2048, 4096, 16384, 65536)
    decode_shape: Shape = WIDE
    decode_batches: tuple[int, ...] = (1, 64)
    decode_points: tuple[int, ...] = (1, 1000, 10_000, 100_000)
    decode_window: int = 200
    memory_shape: Shape = WIDE
    memory_lengths: tuple[int, ...] = (1024, 16384)

    def __post_init__(self) -> None:
        for name, value, accepted in (
            *(("modes", mode, MODES) for mode in self.modes),
            ("dtype", self.dtype, DTYPES),
        ):
            if value not in accepted:
                raise ValueError(f"{name} must be of {', '.join(accepted)}; got {value!r}.")
        if self.device.partition(":")[0] == "cuda" and not torch.cuda.is_available():
            raise ValueError(f"device {self.device!r} is not there: torch sees no GPU.")
        if self.device.partition(":")[0] not in ("cpu", "cuda"):
            raise ValueError(f"device must be cpu or cuda; got {self.device!r}.")


QUICK = OpsOptions(
    shapes=(Shape(2, 24, 2, 4, 8), Shape(1, 40, 1, 4, 6)),
    rounds=2,
    length_shape=Shape(1, 1, 1, 4, 8),
    lengths=(16, 32),
    decode_shape=Shape(1, 1, 1, 4, 8),
    decode_batches=(1, 2),
    decode_points=(1, 20),
    decode_window=4,
    memory_shape=Shape(1, 1, 2, 4, 8),
    memory_lengths=(32, 64),
)
"""To see that all of it runs; the times mean nothing."""


def all_contestants(device: str) -> list[Contestant]:
    """In the order of the tables."""
    return [
        *own_recurrences(device),
        transformers_recurrence(),
        flash_linear_attention(device),
        titans(),
        Attention(),
    ]


def run_ops(options: OpsOptions, say: Callable[[str], None]) -> dict[str, Any]:
    """Measure all that ``options`` ask for; ``say`` hears what comes next.

    Returns:
        what a result file holds.
    """
    began = time.perf_counter()
    contestants = all_contestants(options.device)
    passes = [mode for mode in PASSES if mode in options.modes]
    timed: dict[Shape, dict[str, Any]] = {}
    if passes:
        for shape in options.shapes:
            say(str(shape))
            timed[shape] = time_shape(contestants, shape, passes, options)
    shapes = list(timed.values())
    lengths = _lengths(contestants, timed, options, say) if "lengths" in options.modes else []
    return {
        "benchmark": "ops",
        "options": asdict(options),
        "seed": options.seed,
        "device": device_model(options.device),
        "contestants": [
            {"name": c.name, "note": c.note, "missing": c.missing} for c in contestants
        ],
        "shapes": shapes,
        "lengths": lengths,
        "decode": _decode(contestants, options, say) if "decode" in options.modes else [],
        "memory": _memory(contestants, options, say) if "memory" in options.modes else [],
        "summary": summarise(shapes, passes)
        | {"per_token_longest_to_shortest": length_ratio(lengths, ATPM_FUSED, PASSES[1])},
        "wall_seconds": time.perf_counter() - began,
        "optional_versions": versions(OPTIONAL_PACKAGES),
        **provenance(),
    }


def time_shape(
    contestants: Sequence[Contestant], shape: Shape, passes: Sequence[str], options: OpsOptions
) -> dict[str, Any]:
    """All contestants on the same inputs, alternating, one pass after the other.

    Whoever is dropped in a pass takes no part in the next, which is longer.
    """
    dtype = getattr(torch, options.dtype)
    inputs = random_inputs(shape, seed=options.seed, device=options.device, dtype=dtype)
    reasons = {c.name: reason for c in contestants if (reason := c.refuses(shape.tokens))}
    prepared = {c.name: c.prepare(inputs, shape) for c in contestants if c.name not in reasons}
    rows: dict[str, dict[str, Any]] = {
        c.name: {"contestant": c.name} | dict.fromkeys(PASSES) for c in contestants
    }
    for mode in passes:
        turns = {name: getattr(p, mode) for name, p in prepared.items() if name not in reasons}
        measured = alternate(turns, options.rounds, limit=options.limit, device=options.device)
        reasons |= {name: f"{mode}: {reason}" for name, reason in measured.dropped.items()}
        for name, timing in measured.timings.items():
            rows[name][mode] = timing.record()
    return {
        "shape": asdict(shape),
        "rows": [entry | {"reason": reasons.get(name)} for name, entry in rows.items()],
    }


def _lengths(
    contestants: Sequence[Contestant],
    timed: dict[Shape, dict[str, Any]],
    options: OpsOptions,
    say: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Forward and backward by T; a shape that was timed already is not timed again."""
    entries = []
    for tokens in options.lengths:
        shape = replace(options.length_shape, tokens=tokens)
        if shape not in timed or PASSES[1] not in options.modes:
            say(f"length: {shape}")
            entries.append(time_shape(contestants, shape, PASSES[1:], options))
        else:
            entries.append(timed[shape])
    return entries


def _decode(
    contestants: Sequence[Contestant], options: OpsOptions, say: Callable[[str], None]
) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    for batch in options.decode_batches:
        say(f"decode: batch {batch}, up to {max(options.decode_points):,} tokens read before")
        entries += time_decoding(
            contestants,
            replace(options.decode_shape, rows=batch),
            options.decode_points,
            window=options.decode_window,
            rounds=options.rounds,
            limit=options.limit,
            seed=options.seed,
            device=options.device,
            dtype=getattr(torch, options.dtype),
        )
    return entries


def _memory(
    contestants: Sequence[Contestant], options: OpsOptions, say: Callable[[str], None]
) -> list[dict[str, Any]]:
    entries = []
    for tokens in options.memory_lengths:
        shape = replace(options.memory_shape, tokens=tokens)
        say(f"memory: {shape}")
        for contestant in contestants:
            if isinstance(contestant, Recurrence) and contestant.missing is None:
                measured = training_memory(
                    contestant,
                    shape,
                    seed=options.seed,
                    device=options.device,
                    dtype=getattr(torch, options.dtype),
                )
                entries.append({"shape": asdict(shape)} | measured)
    return entries

"""``fourfold bench step``: training steps with and without kernels, and layer against layer."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from fourfold.benchmarks.machine import cpu_model
from fourfold.benchmarks.processes import Child, compare_versions
from fourfold.benchmarks.timing import Timing, Turn, alternate
from fourfold.benchmarks.training_step import comparison_options, training_step
from fourfold.comparison import ComparisonOptions, model_configurations
from fourfold.models import FourfoldConfig, FourfoldForCausalLM
from fourfold.ops.kernels import without_kernels
from fourfold.results import provenance

DEFAULT, COMPOSED = "as it runs by default", "composed of torch's operators"
LAYERS = ("ATPM", "Gated DeltaNet")


@dataclass(frozen=True)
class StepOptions:
    """What is timed, and how often.

    Attributes:
        rounds: turns of each contestant that count.
        batch_size, sequence_length: bytes a step.
        seed: of weights and bytes.
        baseline: src folder of another checkout, or None.
        pairs: of processes, one of each version, if there is a baseline.
        pair_warmup, pair_steps: steps of each model in a pair; the latter count.
    """

    rounds: int = 7
    batch_size: int = 16
    sequence_length: int = 256
    seed: int = 0
    baseline: Path | None = None
    pairs: int = 3
    pair_warmup: int = 4
    pair_steps: int = 12


QUICK = StepOptions(
    rounds=2, batch_size=2, sequence_length=16, pairs=1, pair_warmup=1, pair_steps=2
)
"""To see that all of it runs; the times mean nothing."""


def run_step(options: StepOptions, say: Callable[[str], None]) -> dict[str, Any]:
    """Measure all that ``options`` ask for; ``say`` hears what comes next.

    Returns:
        what a result file holds.
    """
    began = time.perf_counter()
    comparison = comparison_options(options.batch_size, options.sequence_length)
    configurations = model_configurations(comparison)
    say("training steps")
    steps = time_steps(configurations, comparison, options)
    say("layers")
    layers = time_layers({name: configurations[name] for name in LAYERS}, options)
    versions = None
    if options.baseline is not None:
        say(f"processes: {options.baseline} and the present code")
        settings = {
            "threads": torch.get_num_threads(),
            "batch-size": options.batch_size,
            "sequence-length": options.sequence_length,
            "seed": options.seed,
        }
        versions = compare_versions(
            options.baseline,
            partial(Child, settings=settings),
            pairs=options.pairs,
            warmup=options.pair_warmup,
            steps=options.pair_steps,
        )
    baseline = None if options.baseline is None else str(options.baseline)
    return {
        "benchmark": "step",
        "options": asdict(options) | {"baseline": baseline},
        "seed": options.seed,
        "device": cpu_model(),
        "configurations": {name: config.identity() for name, config in configurations.items()},
        "steps": steps,
        "layers": layers,
        "versions_compared": versions,
        "wall_seconds": time.perf_counter() - began,
        **provenance(),
    }


def time_steps(
    configurations: Mapping[str, FourfoldConfig],
    comparison: ComparisonOptions,
    options: StepOptions,
) -> dict[str, Any]:
    """One training step of each model, by default and without kernels of ours, alternating."""
    turns: dict[str, Turn] = {}
    for name, config in configurations.items():
        make = partial(training_step, config, comparison.training, options.seed)
        turns[f"{name}, {DEFAULT}"] = make()
        turns[f"{name}, {COMPOSED}"] = _composed(make)
    timings = _all_timed(turns, options.rounds)
    return step_table(
        {
            name: (timings[f"{name}, {DEFAULT}"], timings[f"{name}, {COMPOSED}"])
            for name in configurations
        }
    )


def step_table(timings: Mapping[str, tuple[Timing, Timing]]) -> dict[str, Any]:
    """Times of both ways for each model and for all of them, with ratios composed : default."""
    default, composed = (sum(pair[way].median for pair in timings.values()) for way in (0, 1))
    return {
        "ratio": f"time {COMPOSED} : time {DEFAULT}, medians; above 1 the kernels are faster",
        "models": [
            {
                "model": name,
                "default": fast.record(),
                "composed": slow.record(),
                "ratio": slow.median / fast.median,
            }
            for name, (fast, slow) in timings.items()
        ],
        "sum": {
            "default_ms": 1e3 * default,
            "composed_ms": 1e3 * composed,
            "ratio": composed / default,
        },
    }


def time_layers(
    configurations: Mapping[str, FourfoldConfig], options: StepOptions
) -> dict[str, Any]:
    """Forward and backward of one memory layer each, the last against the first, alternating."""
    turns: dict[str, Turn] = {}
    parameters: dict[str, int] = {}
    for name, config in configurations.items():
        torch.manual_seed(options.seed)
        layer = next(FourfoldForCausalLM(config).memories()).train()
        x = torch.randn(
            options.batch_size, options.sequence_length, config.hidden_size, requires_grad=True
        )
        turns[name] = partial(_forward_backward, layer, x, torch.randn_like(x))
        parameters[name] = sum(parameter.numel() for parameter in layer.parameters())
    timings = _all_timed(turns, options.rounds)
    first, *_, last = turns
    return {
        "ratio": f"time of {first} : time of {last}, medians",
        "layers": [
            {"layer": name, "parameters": parameters[name]} | {"time": timings[name].record()}
            for name in turns
        ],
        "time_ratio": timings[first].median / timings[last].median,
        "parameter_ratio": parameters[first] / parameters[last],
    }


def _composed(make: Callable[[], Turn]) -> Turn:
    """A step that is made and taken without kernels of ours."""
    with without_kernels():
        step = make()

    def turn() -> None:
        with without_kernels():
            step()

    return turn


def _forward_backward(layer: torch.nn.Module, x: torch.Tensor, dy: torch.Tensor) -> None:
    y, _ = layer(x)
    torch.autograd.grad(y, [x, *layer.parameters()], dy)


def _all_timed(turns: Mapping[str, Turn], rounds: int) -> dict[str, Timing]:
    """Raises ValueError if one of ours fails: then there is nothing to compare."""
    measured = alternate(turns, rounds)
    for name, reason in measured.dropped.items():
        raise ValueError(f"{name}: {reason}")
    return measured.timings

"""Training steps of the compared models; as a script, timed on demand in a process of its own.

The script runs with older versions of the library too, the baselines of ``bench step``: it
imports nothing but what they have, and nothing of this package.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter

import torch
from torch import nn

import fourfold
from fourfold.comparison import ComparisonOptions, model_configurations
from fourfold.models import FourfoldConfig, FourfoldForCausalLM
from fourfold.results import provenance
from fourfold.training import TrainingOptions, loop


def comparison_options(batch_size: int, sequence_length: int) -> ComparisonOptions:
    """Those of ``fourfold compare``, with windows of this size."""
    options = ComparisonOptions()
    training = replace(options.training, batch_size=batch_size, sequence_length=sequence_length)
    return replace(options, training=training)


def training_step(
    config: FourfoldConfig, options: TrainingOptions, seed: int
) -> Callable[[], None]:
    """One update as ``fourfold.training.train`` does it, on random bytes."""
    torch.manual_seed(seed)
    model = FourfoldForCausalLM(config).train()
    optimizer = make_optimizer(model, options)
    draw = torch.Generator().manual_seed(seed)
    size = (options.batch_size, options.sequence_length)

    def step() -> None:
        batch = torch.randint(256, size, generator=draw)
        loss = model(batch, labels=batch).loss
        loss.item()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), options.gradient_clip)
        optimizer.step()

    return step


def make_optimizer(model: nn.Module, options: TrainingOptions) -> torch.optim.Optimizer:
    """What ``train`` makes, in this version of the library and in those before."""
    if hasattr(loop, "make_optimizer"):
        return loop.make_optimizer(model, options)
    groups = loop.parameter_groups(model, options.weight_decay)
    return torch.optim.AdamW(groups, lr=options.learning_rate, betas=(0.9, 0.95))


def main(arguments: list[str]) -> None:
    """Print what runs; then, for each line that comes in, the milliseconds of a step of each model.

    All of it is JSON, a line each.
    """
    parser = argparse.ArgumentParser()
    for name in ("threads", "batch-size", "sequence-length", "seed"):
        parser.add_argument(f"--{name}", type=int, required=True)
    asked = parser.parse_args(arguments)
    torch.set_num_threads(asked.threads)
    options = comparison_options(asked.batch_size, asked.sequence_length)
    steps = {
        name: training_step(config, options.training, asked.seed)
        for name, config in model_configurations(options).items()
    }
    runs = {"package": fourfold.__file__, "commit": provenance()["commit"]}
    print(json.dumps(runs), flush=True)
    for _ in sys.stdin:
        milliseconds = {}
        for name, step in steps.items():
            began = perf_counter()
            step()
            milliseconds[name] = 1e3 * (perf_counter() - began)
        print(json.dumps(milliseconds), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

"""Accelerate underneath, so that the recipe alone decides what comes out of a run.

Accelerate reads its environment, which ``accelerate launch`` fills from a file of the user's. How
many processes there are and whether they share weights may stand there; what would change the
gradient, the precision or the model may not.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import (
    DistributedType,
    GradientAccumulationPlugin,
    InitProcessGroupKwargs,
    parse_flag_from_env,
)
from torch.distributed.fsdp import MixedPrecisionPolicy
from torch.optim import Optimizer

from fourfold.models import FourfoldForCausalLM
from fourfold.training.recipe import Recipe

PATIENCE = timedelta(days=1)
"""For which processes wait for the first, which may have much text to prepare."""

OTHER_ENGINES = {
    "ACCELERATE_USE_DEEPSPEED": "DeepSpeed",
    "ACCELERATE_USE_MEGATRON_LM": "Megatron-LM",
    "ACCELERATE_USE_PARALLELISM_CONFIG": "a parallelism_config",
}
"""What the environment may ask Accelerate for and a run is not made for."""


def make_accelerator(recipe: Recipe, folder: Path) -> Accelerator:
    """Accelerate for a run of ``recipe`` in ``folder``.

    Raises:
        ValueError: the environment asks for an engine that a run is not made for.
    """
    for variable, name in OTHER_ENGINES.items():
        if parse_flag_from_env(variable):
            raise ValueError(
                f"Training runs in one process, with DDP, or with FSDP2; got {name} by {variable}."
            )
    accelerator = Accelerator(
        mixed_precision="bf16" if recipe.training.precision == "bfloat16" else "no",
        gradient_accumulation_plugin=GradientAccumulationPlugin(num_steps=1),
        dynamo_backend="no",
        log_with=list(recipe.trackers) or None,
        project_dir=str(folder / "trackers"),
        kwargs_handlers=[InitProcessGroupKwargs(timeout=PATIENCE)],
    )
    if accelerator.distributed_type == DistributedType.FSDP:
        plugin = accelerator.state.fsdp_plugin
        if not accelerator.is_fsdp2:
            raise ValueError("FSDP must be of version 2: set fsdp_version: 2 for accelerate.")
        if plugin.activation_checkpointing:
            raise ValueError(
                "Leave fsdp_activation_checkpointing off, which renames the weights, and set "
                "training.gradient_checkpointing=true."
            )
        # Accelerate's own choice computes all in half precision, the memories too.
        plugin.mixed_precision_policy = MixedPrecisionPolicy(reduce_dtype=torch.float32)
    return accelerator


def prepare(
    accelerator: Accelerator, model: FourfoldForCausalLM, optimizer: Optimizer
) -> tuple[torch.nn.Module, Optimizer]:
    """``model`` and ``optimizer`` on their device, for all processes, in the run's precision."""
    if accelerator.is_fsdp2:
        # For others Accelerate does the same.
        model.forward = accelerator.autocast()(model.forward)  # type: ignore[method-assign]
    model, optimizer = accelerator.prepare(model, optimizer)
    return model, optimizer

"""All that can be said of a run without running it."""

from __future__ import annotations

from dataclasses import dataclass

from fourfold.models import FourfoldConfig
from fourfold.planning.flops import forward_flops, training_flops
from fourfold.planning.memory import Carried, carried, training_bytes
from fourfold.planning.parameters import parameters_by_part, without_memory
from fourfold.training.recipe import Recipe


@dataclass(frozen=True)
class Plan:
    """What a run of a recipe takes.

    Attributes:
        config: of the model.
        tokens: that the run reads.
        context: tokens over which ``forward_flops`` are a mean.
        parameters: by part.
        forward_flops: of one token, by part.
        training_flops: of one token, forward and backward.
        carried: memory of one sequence.
        training_bytes: that stay from step to step, by what they are.
    """

    config: FourfoldConfig
    tokens: int
    context: int
    parameters: dict[str, int]
    forward_flops: dict[str, float]
    training_flops: float
    carried: Carried
    training_bytes: dict[str, int]


def make_plan(
    recipe: Recipe, vocab_size: int, *, tokens: int | None = None, context: int | None = None
) -> Plan:
    """The plan of ``recipe``; the model gets shapes but no memory.

    Args:
        vocab_size: entries of the tokenizer.
        tokens: to read; None for those of the recipe.
        context: tokens from an empty memory; None for a window of the recipe.

    Raises:
        ValueError: the recipe describes no model.
    """
    training = recipe.training
    config = recipe.model.configuration(vocab_size)
    model = without_memory(config)
    context = context or training.sequence_length
    forward = forward_flops(model, context)
    return Plan(
        config=config,
        tokens=tokens or training.total_steps * training.tokens_per_step,
        context=context,
        parameters=parameters_by_part(model),
        forward_flops=forward,
        training_flops=training_flops(forward, checkpointing=training.gradient_checkpointing),
        carried=carried(model),
        training_bytes=training_bytes(model),
    )

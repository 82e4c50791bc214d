"""How large the models of a grid are, and what they carry."""

from __future__ import annotations

from dataclasses import dataclass

from fourfold.evaluation.state_size import cache_after
from fourfold.grid.cell import STATE_TOKENS
from fourfold.grid.config import Grid
from fourfold.models import FourfoldForCausalLM


@dataclass(frozen=True)
class ModelSize:
    """Of one model of a grid, on its first task.

    Attributes:
        model: its name.
        parameters: of the whole model.
        feed_forward: width that brings it there.
        state_numbers: that one layer carries for one sequence after STATE_TOKENS.
        state_bytes: that all layers carry.
    """

    model: str
    parameters: int
    feed_forward: int
    state_numbers: int
    state_bytes: int


def model_sizes(grid: Grid) -> list[ModelSize]:
    """The sizes of all models."""
    task = next(iter(grid.tasks))
    found = []
    for name in grid.models:
        config = grid.configurations[task, name]
        model = FourfoldForCausalLM(config)
        cache = cache_after(model, STATE_TOKENS)
        found.append(
            ModelSize(
                model=name,
                parameters=model.num_parameters(),
                feed_forward=config.intermediate_size,
                state_numbers=cache.numbers // len(cache),
                state_bytes=cache.nbytes,
            )
        )
    return found

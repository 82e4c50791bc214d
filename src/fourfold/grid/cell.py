"""One run of a grid: a model trained on a task with a rate and a seed, and all its measures."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fourfold.evaluation.answers import decode
from fourfold.evaluation.scores import summarise
from fourfold.evaluation.state_size import state_bytes
from fourfold.evaluation.teacher_forcing import answer_cross_entropy, target_logits
from fourfold.grid.config import Grid, slug
from fourfold.models import FourfoldConfig, FourfoldForCausalLM
from fourfold.models.registry import sources_of
from fourfold.ops.pointwise import cross_entropy_sum
from fourfold.results import provenance, read_result, refuse_other, write_result
from fourfold.tasks import Example, Source, Split
from fourfold.tasks.batch import pack
from fourfold.training import FitOptions, Step, fit

TESTS: tuple[Split, ...] = ("iid", "ood", "stress")
STATE_TOKENS = 100
"""Length of the sequence whose state is measured, about the longest of training."""


@dataclass(frozen=True, order=True)
class Cell:
    """A place in a grid."""

    task: str
    model: str
    rate: float
    seed: int

    def __str__(self) -> str:
        return f"{self.task}, {self.model}, rate {self.rate:g}, seed {self.seed}"

    @property
    def path(self) -> Path:
        """Of its result, below the folder of the grid."""
        return Path(
            "cells", self.task, slug(self.model), f"rate-{self.rate:g}-seed-{self.seed}.json"
        )


def settings(grid: Grid, cell: Cell) -> dict[str, Any]:
    """Everything that a cell's result depends on, as JSON holds it."""
    configuration = grid.configurations[cell.task, cell.model]
    found = {
        "task": grid.built_tasks[cell.task].model_dump(),
        "configuration": configuration.identity(),
        "training": grid.training.model_dump(),
        "evaluation": grid.evaluation.model_dump(),
        **sources_of(configuration.layer_types),
    }
    return asdict(cell) | {"settings": json.loads(json.dumps(found))}


def finished(grid: Grid, cell: Cell, folder: Path) -> dict[str, Any] | None:
    """The result of ``cell`` in ``folder``, or None if it is still to be run.

    Raises:
        ValueError: the file there is the result of other settings.
    """
    path = folder / cell.path
    result = read_result(path)
    if result is None:
        return None
    wanted, found = _flat(settings(grid, cell)), _flat(result)
    refuse_other(path, (key for key, value in wanted.items() if found.get(key) != value))
    return result


def _flat(result: dict[str, Any]) -> dict[str, Any]:
    """The settings beside the place in the grid."""
    inner = result.get("settings")
    inner = dict(inner) if isinstance(inner, dict) else {}
    if isinstance(inner.get("configuration"), dict):
        inner["configuration"] = FourfoldConfig.completed(inner["configuration"])
    return {key: value for key, value in result.items() if key != "settings"} | inner


def run_cell(
    grid: Grid, cell: Cell, folder: Path, on_step: Callable[[Step], None]
) -> dict[str, Any]:
    """Train and measure; the result is the same wherever and whenever a cell is run.

    Args:
        folder: of the grid; only for the trained model, if the grid keeps models.
        on_step: is told of every step.

    Returns:
        the result, for ``write_cell``. A training whose loss is no longer finite is a result too:
        ``diverged_at`` says the step, and there are no scores.
    """
    began = time.perf_counter()
    task = grid.built_tasks[cell.task]
    training, evaluation = grid.training, grid.evaluation
    torch.manual_seed(cell.seed)
    model = FourfoldForCausalLM(grid.configurations[cell.task, cell.model])
    source, measured = Source(task, cell.seed), Source(task)
    validation = measured.examples("validation", 0, evaluation.validation_examples)
    curve: list[dict[str, float]] = []
    interval = max(1, training.steps // evaluation.curve_points)
    last = Step(0, 0.0, 0.0)

    def next_loss(step: int) -> tuple[Tensor, int]:
        start = (step - 1) * training.batch_size
        batch = pack(source.examples("train", start, start + training.batch_size))
        logits = target_logits(model, batch).float()
        loss = cross_entropy_sum(logits, batch.targets) / len(batch.targets)
        return loss, batch.tokens.numel()

    def record(step: Step) -> None:
        nonlocal last
        last = step
        if step.step % interval == 0 or step.step == training.steps:
            loss, accuracy = answer_cross_entropy(model, validation)
            point = {"step": step.step, "training_loss": step.loss}
            curve.append(point | {"validation_loss": loss, "validation_accuracy": accuracy})
        on_step(step)

    result = settings(grid, cell) | {
        "parameters": model.num_parameters(),
        "state_bytes": state_bytes(model, STATE_TOKENS),
        "state_bytes_at_tokens": STATE_TOKENS,
        "diverged_at": None,
    }
    shared = training.model_dump(exclude={"batch_size"})
    options = FitOptions(learning_rate=cell.rate, **shared)
    try:
        fit(model, next_loss, options, record)
    except ArithmeticError:
        result["diverged_at"] = last.step + 1
    else:
        result["validation"] = _measure(model, validation)
        result["tests"] = {
            split: _measure(model, measured.examples(split, 0, evaluation.examples))
            for split in TESTS
        }
        if grid.keep_models:
            model.eval().save_pretrained(folder / "models" / cell.path.with_suffix(""))
    return result | {
        "curve": curve,
        "train_tokens_per_second": last.tokens_per_second,
        "wall_seconds": time.perf_counter() - began,
        **provenance(),
    }


def write_cell(cell: Cell, folder: Path, result: dict[str, Any]) -> None:
    """Keep the result of ``cell`` below ``folder``, atomically."""
    path = folder / cell.path
    path.parent.mkdir(parents=True, exist_ok=True)
    write_result(path, result)


def _measure(model: FourfoldForCausalLM, examples: Sequence[Example]) -> dict[str, Any]:
    loss, _ = answer_cross_entropy(model, examples)
    return summarise(examples, decode(model, examples)) | {"cross_entropy": loss}

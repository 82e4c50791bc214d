"""Result files of a grid that nobody has run: true examples, answers that are made up."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

from fourfold.evaluation import scores
from fourfold.evaluation.answers import Answer
from fourfold.grid import Cell, Grid, Schedule
from fourfold.grid.cell import TESTS, settings, write_cell
from fourfold.tasks import Source

Skill = Callable[[Cell], "float | None"]
"""The share of questions that a cell answers rightly; None: its training diverged."""


def small_grid(**changes: Any) -> Grid:
    """Two tasks and four models, one of which takes the rate of another."""
    content: dict[str, Any] = {
        "tasks": ["overwrite", "mixed_all"],
        "models": {
            "ATPM": {"layer": "atpm"},
            "<b>LSTM</b> & co": {"layer": "lstm"},
            "Comba": {"layer": "comba", "rate_of": "ATPM", "seeds": [0]},
        },
        "parameters": 60_000,
        "fields": {"hidden_size": 32, "num_attention_heads": 1, "head_dim": 32},
        "rates": [0.001, 0.003, 0.01],
        "seeds": [0, 1],
        "training": {"steps": 100},
        "evaluation": {"examples": 12, "validation_examples": 12, "curve_points": 4},
    }
    return Grid(**(content | changes))


def make_result(grid: Grid, cell: Cell, skill: float | None) -> dict[str, Any]:
    """What ``run_cell`` would return, as far as anybody reads it."""
    steps = grid.training.steps
    random = Random(str(cell))
    result = settings(grid, cell) | {
        "parameters": grid.parameters + len(cell.model),
        "state_bytes": 1000 * len(cell.model),
        "state_bytes_at_tokens": 100,
        "diverged_at": None if skill is not None else steps // 2,
    }
    points = grid.evaluation.curve_points
    curve = [_point(place / points, steps, skill or 0.0, random) for place in range(1, points + 1)]
    if skill is None:
        curve = curve[: points // 2]
    else:
        count = grid.evaluation.validation_examples
        result["validation"] = _measured(grid, cell, "validation", count, skill, random)
        result["tests"] = {
            split: _measured(
                grid, cell, split, grid.evaluation.examples, skill ** (1 + 2 * place), random
            )
            for place, split in enumerate(TESTS)
        }
    return result | {
        "curve": curve,
        "train_tokens_per_second": 1000.0,
        "wall_seconds": 60.0,
        "command": ["fourfold", "tasks", "run", "grid.yaml"],
        "commit": "0123abc",
        "versions": {"python": "3.11.2", "fourfold": "0.1.0"},
        "machine": {"processor": "x86_64", "cores": 2, "threads": 1},
        "finished": "2026-01-02T03:04:05+00:00",
    }


def write_cells(grid: Grid, folder: Path, skill: Skill, skip: Callable[[Cell], bool]) -> Schedule:
    """Write what is known of a grid, round by round as a run would, without the cells to skip."""
    schedule = Schedule(grid)
    while cells := [cell for cell in schedule.open() if not skip(cell)]:
        for cell in cells:
            result = make_result(grid, cell, skill(cell))
            write_cell(cell, folder, result)
            schedule.results[cell] = result
    return schedule


def _measured(
    grid: Grid, cell: Cell, split: Any, count: int, skill: float, random: Random
) -> dict[str, Any]:
    examples = Source(grid.built_tasks[cell.task]).examples(split, 0, count)
    answers = []
    for number, example in enumerate(examples):
        for question in example.questions:
            right = question.answer
            said = right if random.random() < skill ** (1 + example.load / 40) else right[1:]
            (first, *_) = question.parts
            if said != right and first.stale and random.random() < 0.5:
                said = (*first.stale[0], *right[len(first.tokens) :])
            answers.append(Answer(number, question, said, right))
    loss = -math.log(max(skill, 0.01)) + random.random() / 100
    with mock.patch.object(scores, "RESAMPLES", 40):  # an interval that costs little
        return scores.summarise(examples, answers) | {"cross_entropy": loss}


def _point(progress: float, steps: int, skill: float, random: Random) -> dict[str, float]:
    learned = skill / (1 + math.exp(12 * (0.5 - progress)))
    return {
        "step": round(progress * steps),
        "training_loss": 2.5 * (1 - learned),
        "validation_loss": 2.5 * (1 - learned) + random.random() / 50 + 0.001,
        "validation_accuracy": learned,
    }

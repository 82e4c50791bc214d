"""What the models of the grid know, find and learn, also where they were not trained.

    python results/mosaics/knowledge/measure.py FOLDER

FOLDER holds grid.yaml, its finished cells and its models. Each model at its best rate is measured
once: one file in FOLDER/measures for each, and what is there is not measured again.

    documents    exact match at 1, 2, 4 and 8 times the length of training; and while training goes
                 on at 8 times the length: after how many steps is it good?
    closed_book  what the context told and what never changes
    label_map    exact match by shots, of known classes and of anonymous ones

All of it with every memory and, where a model has such, without the long one. A model whose
training diverged is left out.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from fourfold import FourfoldForCausalLM
from fourfold.evaluation.answers import decode
from fourfold.evaluation.scores import summarise
from fourfold.evaluation.teacher_forcing import target_logits
from fourfold.grid.cell import Cell, settings
from fourfold.grid.config import Grid, read_grid, slug
from fourfold.grid.gather import gather
from fourfold.grid.schedule import Schedule
from fourfold.ops.pointwise import cross_entropy_sum
from fourfold.results import provenance, read_result, refuse_other, write_result
from fourfold.tasks import Source, Task, make_task
from fourfold.tasks.batch import pack
from fourfold.training import FitOptions, Step, fit

EXAMPLES = 200
"""Of each condition."""

TIMES = (1, 2, 4, 8)
SHOTS = (1, 2, 4, 8, 16, 32)
ADAPTED = (1, 2, 4, 8, 16, 32, 64)
"""Steps at eight times the length after which a model is measured."""

RATES = (0.1, 1.0)
"""Of going on, as shares of the rate at the peak of training, which ends at the first of them: so
that what one step does is not a matter of one choice of rate."""


def at_load(grid: Grid, name: str, load: int, **fields: Any) -> Task:
    """A task of the grid at one load."""
    loads = dict.fromkeys(("iid", "ood", "stress"), (load, load))
    return make_task(name, {**grid.tasks[name], "loads": loads, **fields})


def asked(model: FourfoldForCausalLM, task: Task) -> dict[str, Any]:
    """Scores on test examples of a task."""
    examples = Source(task).examples("iid", 0, EXAMPLES)
    return summarise(examples, decode(model, examples, batch_size=16))


def conditions(model: FourfoldForCausalLM) -> Iterator[list[str]]:
    """Names of memories that are silent: none, and the long one where there is such."""
    yield []
    if "long" in model.named_memories():
        yield ["long"]


def documents(grid: Grid, model: FourfoldForCausalLM) -> list[dict[str, Any]]:
    trained = grid.built_tasks["documents"].loads.iid[1]
    return [
        {"times": times, **asked(model, at_load(grid, "documents", times * trained))}
        for times in TIMES
    ]


def closed_book(grid: Grid, model: FourfoldForCausalLM) -> list[dict[str, Any]]:
    return [asked(model, grid.built_tasks["closed_book"])]


def label_map(grid: Grid, model: FourfoldForCausalLM) -> list[dict[str, Any]]:
    return [
        {
            "labels": labels,
            "shots": shots,
            **asked(model, at_load(grid, "label_map", shots, anonymous=share)),
        }
        for labels, share in (("known", 0.0), ("anonymous", 1.0))
        for shots in SHOTS
    ]


MEASURES = {"documents": documents, "closed_book": closed_book, "label_map": label_map}


def adaptation(
    grid: Grid, model: FourfoldForCausalLM, cell: Cell, share: float
) -> list[dict[str, Any]]:
    """Exact match at the greatest length while training goes on there, at a share of its rate."""
    torch.manual_seed(cell.seed)  # of delays drawn while training
    trained = grid.built_tasks["documents"].loads.iid[1]
    task = at_load(grid, "documents", TIMES[-1] * trained)
    source, size = Source(task, cell.seed), grid.training.batch_size
    points = [{"steps": 0, **asked(model, task)}]

    def next_loss(step: int):
        batch = pack(source.examples("train", (step - 1) * size, step * size))
        loss = cross_entropy_sum(target_logits(model, batch).float(), batch.targets)
        return loss / len(batch.targets), batch.tokens.numel()

    def measure(step: Step) -> None:
        if step.step in ADAPTED:
            points.append({"steps": step.step, **asked(model, task)})

    options = FitOptions(ADAPTED[-1], share * cell.rate, warmup_steps=0, final_share=1.0)
    fit(model, next_loss, options, measure)
    return points


def measure(grid: Grid, cell: Cell, folder: Path) -> dict[str, Any]:
    """All measures of one model."""
    where = folder / "models" / cell.path.with_suffix("")
    model = FourfoldForCausalLM.from_pretrained(where)
    rows = []
    for silent in conditions(model):
        with model.without(*silent):
            rows += [{"disabled": silent, **row} for row in MEASURES[cell.task](grid, model)]
    result = asked_for(grid, cell) | {"rows": rows}
    if cell.task == "documents":
        result["adaptation"] = [
            {
                "share": share,
                "points": adaptation(grid, FourfoldForCausalLM.from_pretrained(where), cell, share),
            }
            for share in RATES
        ]
    return result | provenance()


def asked_for(grid: Grid, cell: Cell) -> dict[str, Any]:
    """What a measure hangs on."""
    own = {"examples": EXAMPLES, "times": TIMES, "shots": SHOTS, "adapted": ADAPTED, "rates": RATES}
    return settings(grid, cell) | {"measure": own}


def main(folder: Path) -> None:
    schedule = Schedule(read_grid(folder / "grid.yaml"))
    gather(schedule, folder)
    grid = schedule.grid
    for task in MEASURES:
        for name in grid.models:
            rate = schedule.best_rate(task, name)
            for seed in grid.seeds_of(name):
                cell = None if rate is None else Cell(task, name, rate, seed)
                if cell is None or cell not in schedule.results:
                    print(f"{task}, {name}, seed {seed}: not trained yet", flush=True)
                    continue
                if schedule.results[cell]["diverged_at"] is not None:
                    print(f"{task}, {name}, seed {seed}: diverged", flush=True)
                    continue
                path = folder / "measures" / task / slug(name) / f"seed-{seed}.json"
                wanted = json.loads(json.dumps(asked_for(grid, cell)))
                if found := read_result(path):
                    refuse_other(path, [key for key in wanted if found.get(key) != wanted[key]])
                else:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    write_result(path, measure(grid, cell, folder))
                    print(f"{path}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))

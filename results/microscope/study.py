"""What ρ, λ and β do in trained models: do they tell events apart, and what if they are held?

    python results/microscope/study.py FOLDER

FOLDER holds grid.yaml, its finished cells and its models. One file in FOLDER/study for each model;
what is there is not done again:

    means        of every quantity, by layer, head and event
    separation   how well a quantity tells two kinds of events apart at tokens of one kind: the
                 probability that it is greater at one than at the other (AUC), with an interval
                 over examples; also among tokens at the same position alone, for changes come
                 after writes, and whatever grows along a text tells them apart, too
    ablation     exact match with each coordinate of each head held
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import Tensor

from fourfold import FourfoldForCausalLM
from fourfold.grid.cell import Cell, settings
from fourfold.grid.config import Grid
from fourfold.grid.gather import gather
from fourfold.grid.schedule import Schedule
from fourfold.observe import Trace, observe
from fourfold.observe.ablation import ablate
from fourfold.observe.events import events_of
from fourfold.results import provenance, read_result, write_result
from fourfold.settings import read_mapping, validated
from fourfold.tasks import Source, Task

EXAMPLES, ABLATED, RESAMPLES = 200, 200, 200
COORDINATES = ("rho", "lambda", "beta_k", "beta_v", "alpha", "tau", "residual_v")

PAIRS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    # Which tokens (by the first letter of their word, any if empty), and the two kinds of events.
    "copy": ("", ("value",), ("noise",)),
    "revise": ("v", ("untouched write", "first write"), ("update",)),
    "overwrite": ("v", ("untouched write", "first write"), ("update",)),
    "rebind": ("k", ("untouched write", "first write"), ("move", "swap")),
    "forget": ("k", ("untouched write", "first write"), ("forget",)),
}
"""Remember against noise, revise, rewrite, rewrite to another address, rewrite to nothing."""


def read(model: FourfoldForCausalLM, task: Task) -> tuple[Trace, list[str]]:
    """A trace of test examples, each token labelled, and the words of its tokens."""
    drawn = [events_of(task, example) for example in Source(task).examples("iid", 0, EXAMPLES)]
    ends = torch.tensor([0] + [len(tokens) for tokens, _ in drawn]).cumsum(0)
    packed = torch.tensor([[token for tokens, _ in drawn for token in tokens]])
    with observe(model) as trace, torch.no_grad():
        model(packed, cu_seqlens=ends, use_cache=False)
    for number, (_, events) in enumerate(drawn):
        trace.label([event.kind for event in events], sequence=number)
    return trace, [task.word(int(token)) for token in trace.token]


def means(trace: Trace) -> list[dict[str, Any]]:
    rows = []
    places: dict[str, list[int]] = defaultdict(list)
    for place, event in enumerate(trace.events):
        places[event].append(place)
    for layer, found in trace.values.items():
        for quantity, values in found.items():
            for event, at in places.items():
                here = values[at].double()
                for head in range(values.shape[1]):
                    rows.append(
                        {
                            "layer": layer,
                            "head": head,
                            "quantity": quantity,
                            "event": event,
                            "mean": float(here[:, head].mean()),
                            "deviation": float(here[:, head].std(correction=0)),
                            "tokens": len(at),
                        }
                    )
    return rows


def auc(one: Tensor, other: Tensor) -> float:
    """Probability that a value of ``other`` is greater than one of ``one``; ties count half."""
    every = torch.cat([one, other])
    _, inverse, counts = every.unique(return_inverse=True, return_counts=True)
    ranks = (counts.cumsum(0) - counts).double() + (counts + 1) / 2
    total = float(ranks[inverse][len(one) :].sum())
    return (total - len(other) * (len(other) + 1) / 2) / (len(one) * len(other))


def matched(one: dict[int, Tensor], other: dict[int, Tensor]) -> float | None:
    """``auc`` among values at the same position, over all positions; None where there are none."""
    wins = pairs = 0.0
    for position in one.keys() & other.keys():
        size = len(one[position]) * len(other[position])
        wins += size * auc(one[position], other[position])
        pairs += size
    return wins / pairs if pairs else None


def separation(trace: Trace, words: list[str], task: str) -> list[dict[str, Any]]:
    letter, first, second = PAIRS[task]
    groups: dict[int, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for place, (word, event) in enumerate(zip(words, trace.events, strict=True)):
        if not letter or word[0] == letter:
            if event in first:
                groups[int(trace.sequence[place])][0].append(place)
            elif event in second:
                groups[int(trace.sequence[place])][1].append(place)
    examples = list(groups.values())
    random = Random(0)
    resampled = [random.choices(examples, k=len(examples)) for _ in range(RESAMPLES)]

    def both(chosen: list[tuple[list[int], list[int]]]) -> tuple[list[int], list[int]]:
        return [p for one, _ in chosen for p in one], [p for _, other in chosen for p in other]

    draws = [both(chosen) for chosen in (examples, *resampled)]
    rows = []
    place_of = {
        side: {
            int(position): [p for p in places if trace.position[p] == position]
            for position in trace.position[places].unique()
        }
        for side, places in zip((0, 1), draws[0], strict=True)
    }
    columns = [
        (layer, head, quantity, found[quantity][:, head])
        for layer, found in trace.values.items()
        for quantity in COORDINATES
        for head in range(found[quantity].shape[1])
    ]
    # What position alone tells, to hold the coordinates against.
    columns.append((None, None, "position", trace.position))
    for layer, head, quantity, values in columns:
        whole, *others = (auc(values[one], values[other]) for one, other in draws)
        others.sort()
        tail = round(0.025 * RESAMPLES)
        sides = [{at: values[places] for at, places in place_of[side].items()} for side in (0, 1)]
        rows.append(
            {
                "layer": layer,
                "head": head,
                "quantity": quantity,
                "auc": whole,
                "interval": [others[tail], others[-1 - tail]],
                "matched": matched(*sides),
                "of": [len(side) for side in draws[0]],
            }
        )
    return rows


def study(grid: Grid, cell: Cell, folder: Path) -> dict[str, Any]:
    """All of one model."""
    task = grid.built_tasks[cell.task]
    model = FourfoldForCausalLM.from_pretrained(folder / "models" / cell.path.with_suffix(""))
    model.eval()
    trace, words = read(model, task)
    return settings(grid, cell) | {
        "letter": PAIRS[cell.task][0],
        "events": [list(kinds) for kinds in PAIRS[cell.task][1:]],
        "means": means(trace),
        "separation": separation(trace, words, cell.task),
        "ablation": ablate(model, Source(task).examples("iid", 0, ABLATED)),
        **provenance(),
    }


def main(folder: Path) -> None:
    content = read_mapping(folder / "grid.yaml", "tasks and models")
    schedule = Schedule(validated(Grid, content, "grid.yaml"))
    gather(schedule, folder)
    for cell in schedule.known():
        path = folder / "study" / cell.path.relative_to("cells")
        if cell not in schedule.results:
            print(f"{cell}: not trained yet", flush=True)
        elif read_result(path) is None:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_result(path, study(schedule.grid, cell, folder))
            print(path, flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))

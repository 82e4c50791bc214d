"""What ρ, λ and β do in trained models: do they tell events apart, and what if they are held?

    python results/microscope/study.py FOLDER

FOLDER holds grid.yaml, its finished cells and its models. One file in FOLDER/study for each model;
what is there is not done again:

    means        of every quantity, by layer, head and event, questions and answers included
    pairs        minimal pairs: the same statement about a key that the memory knows and about one
                 that it does not, how often a quantity is greater at the first; and, to hold
                 against, the same of two keys that it does not know
    stages       how well a quantity tells kinds of events apart (AUC), with an interval over
                 examples; the same of a model that was not trained. Kinds have words of their own,
                 so this alone does not show that a memory knows an event
    transport    at moves and swaps, by how much the destination of a write is nearer than its
                 source to the address at which the value will be asked for, and to another
    ablation     exact match with a coordinate held at a value or at its mean: in the whole model,
                 also at changes or at questions alone, and in each head
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fourfold import FourfoldForCausalLM
from fourfold.evaluation.scores import bootstrap
from fourfold.grid.cell import Cell, settings
from fourfold.grid.config import Grid, read_grid
from fourfold.grid.gather import gather
from fourfold.grid.schedule import Schedule
from fourfold.observe import Trace, observe
from fourfold.observe.ablation import ablate
from fourfold.observe.events import events_of
from fourfold.observe.minimal_pairs import CHANGES, MinimalPair, minimal_pair
from fourfold.results import provenance, read_result, refuse_other, write_result
from fourfold.tasks import Example, Source, Split, Task

EXAMPLES, ABLATED, RESAMPLES = 300, 100, 300
QUANTITIES = ("rho", "lambda", "beta_k", "beta_v", "alpha", "tau", "angle", "residual_v")

STAGES = {
    "write": ("untouched write", "first write", "value", "marked"),
    "remember": ("noise",),
    "revise": ("update",),
    "rewrite": ("update", "move", "swap", "forget"),
    "question": ("question",),
    "answer": ("answer",),
}
"""Kinds of events of each; an update of revise is a revision, and any other a rewriting."""

CONTRASTS = (
    ("write", "remember"),
    ("write", "revise"),
    ("write", "rewrite"),
    ("revise", "rewrite"),
    ("remember", "rewrite"),
    ("write", "question"),
    ("write", "answer"),
)

WHOLE: tuple[dict[str, Any], ...] = (
    {"rho": 0.0},
    {"rho": "mean"},
    {"lam": 0.0},
    {"lam": "mean"},
    {"rho": 0.0, "lam": 0.0},
    {"beta": "mean"},
    {"alpha": "mean"},
)
"""What is held in the whole model."""

SPLITS: tuple[Split, ...] = ("iid", "ood")


def packed(
    model: FourfoldForCausalLM, texts: Sequence[Sequence[int]], *, vectors: bool = False
) -> Trace:
    """A trace of all texts, each of its own."""
    ends = torch.tensor([0] + [len(text) for text in texts]).cumsum(0)
    tokens = torch.tensor([[token for text in texts for token in text]])
    with observe(model, vectors=vectors) as trace, torch.no_grad():
        model(tokens, cu_seqlens=ends, use_cache=False)
    return trace


def heads(trace: Trace) -> list[tuple[int, int, str, Tensor]]:
    """Layer, head, quantity and values (L,)."""
    return [
        (layer, head, quantity, found[quantity][:, head])
        for layer, found in trace.values.items()
        for quantity in QUANTITIES
        for head in range(found[quantity].shape[1])
    ]


def interval(values: Sequence[float]) -> tuple[float, float]:
    """95 % of the means of values drawn anew."""
    return bootstrap([[[value] for value in values]])


def stage_of(task: str, kind: str) -> str:
    """The stage of an event, "" for none."""
    if kind == "update":
        return "revise" if task == "revise" else "rewrite"
    return next((stage for stage, kinds in STAGES.items() if kind in kinds), "")


def read(model: FourfoldForCausalLM, task: Task) -> tuple[Trace, list[str], list[str]]:
    """A trace of examples, each with one of its questions; its tokens' events and stages."""
    texts, kinds, stages = [], [], []
    for example in Source(task).examples("iid", 0, EXAMPLES):
        asked = example.questions[0] if example.questions else None
        tokens, events = events_of(task, example, asked)
        texts.append(tokens)
        kinds += [event.kind for event in events]
        stages += [stage_of(example.task or task.name, event.kind) for event in events]
    return packed(model, texts), kinds, stages


def means(trace: Trace, kinds: Sequence[str]) -> list[dict[str, Any]]:
    """Of every quantity."""
    places: dict[str, list[int]] = defaultdict(list)
    for place, kind in enumerate(kinds):
        places[kind].append(place)
    rows = []
    for layer, found in trace.values.items():
        for quantity, values in found.items():
            for kind, at in places.items():
                here = values[at].double()
                for head in range(values.shape[1]):
                    rows.append(
                        {
                            "layer": layer,
                            "head": head,
                            "quantity": quantity,
                            "event": kind,
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


def contrasts(trace: Trace, stages: Sequence[str], resamples: int) -> list[dict[str, Any]]:
    """AUC of every contrast of which there are both sides, over examples drawn anew."""
    places: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for place, (sequence, stage) in enumerate(zip(trace.sequence.tolist(), stages, strict=True)):
        places[sequence][stage].append(place)
    random = Random(0)
    examples = list(places.values())
    draws = [examples] + [random.choices(examples, k=len(examples)) for _ in range(resamples)]
    rows = []
    for sides in CONTRASTS:
        chosen = [
            [[place for each in draw for place in each.get(side, ())] for side in sides]
            for draw in draws
        ]
        if not all(chosen[0]):
            continue
        for layer, head, quantity, values in heads(trace):
            found = [auc(values[one], values[other]) for one, other in chosen if one and other]
            whole, others = found[0], sorted(found[1:])
            tail = round(0.025 * len(others))
            rows.append(
                {
                    "layer": layer,
                    "head": head,
                    "quantity": quantity,
                    "sides": sides,
                    "auc": whole,
                    "interval": [others[tail], others[-1 - tail]] if others else None,
                    "of": [len(side) for side in chosen[0]],
                }
            )
    return rows


def changes(task: Task) -> list[tuple[Example, MinimalPair]]:
    """One change of each example that has any."""
    drawn = enumerate(Source(task).examples("iid", 0, EXAMPLES))
    pairs = [
        (example, minimal_pair(task, example, Random(f"pair {number}")))
        for number, example in drawn
    ]
    return [(example, pair) for example, pair in pairs if pair is not None]


def pairs(model: FourfoldForCausalLM, task: Task) -> list[dict[str, Any]]:
    """How often a quantity is greater where the key is known, at the key and behind it."""
    drawn = [pair for _, pair in changes(task)]
    if not drawn:
        return []
    traces = [
        packed(model, [getattr(pair, name) for pair in drawn])
        for name in ("known", "unknown", "other")
    ]
    first = torch.tensor([0] + [len(pair.known) for pair in drawn]).cumsum(0).tolist()
    rows = []
    for role in ("key", "behind it"):
        places = [
            [at + pair.key]
            if role == "key"
            else list(range(at + pair.key + 1, at + len(pair.known)))
            for at, pair in zip(first, drawn, strict=False)
        ]
        kept = [number for number, at in enumerate(places) if at]
        if not kept:
            continue
        shown, unknown, other = map(heads, traces)
        for column, (layer, head, quantity, _) in enumerate(shown):
            tensors = [found[column][-1] for found in (shown, unknown, other)]
            values = [
                torch.stack([each[places[number]].double().mean() for number in kept])
                for each in tensors
            ]
            greater, null = (
                ((values[a] > values[b]).double() + (values[a] == values[b]).double() / 2).tolist()
                for a, b in ((0, 1), (1, 2))
            )
            rows.append(
                {
                    "layer": layer,
                    "head": head,
                    "quantity": quantity,
                    "at": role,
                    "known": float(values[0].mean()),
                    "unknown": float(values[1].mean()),
                    "greater": sum(greater) / len(kept),
                    "interval": interval(greater),
                    "null": sum(null) / len(kept),
                    "of": len(kept),
                }
            )
    return rows


def transport(model: FourfoldForCausalLM, task: Task) -> list[dict[str, Any]]:
    """cos(d, q̂) − cos(s, q̂) at each word of a move or swap, with q̂ the normalised query of the
    question about the key that the value goes to, and of one about a key that it has nothing to do
    with."""
    drawn, random = [], Random("transport")
    for example, pair in changes(task):
        if pair.kind in ("move", "swap"):
            involved = pair.known[pair.key : pair.key + 2]
            # Prompts are a sign and a key.
            prompts = {question.prompt[-1]: question.prompt for question in example.questions}
            keys = [key for key in prompts if key not in involved and key in pair.known]
            if keys and involved[1] in prompts:
                drawn.append((pair, (prompts[involved[1]], prompts[random.choice(keys)])))
    if not drawn:
        return []
    towards = []
    for which in (0, 1):
        texts = [(*pair.known, *asked[which]) for pair, asked in drawn]
        trace = packed(model, texts, vectors=True)
        found: dict[int, Tensor] = {}
        for layer, rows in trace.rows.items():
            gains = []
            for number, ((pair, _), text) in enumerate(zip(drawn, texts, strict=True)):
                asked = F.normalize(rows.q[number, len(text) - 1], dim=-1)
                at = slice(pair.start, pair.start + 4)
                s, d = (F.normalize(each[number, at], dim=-1) for each in (rows.s, rows.d))
                gains.append(((d - s) * asked).sum(-1))
            found[layer] = torch.stack(gains)  # (examples, words, H)
        towards.append(found)
    rows_found = []
    for layer, target in towards[0].items():
        other = towards[1][layer]
        for word, name in enumerate(("sign", "from", "to", "end")):
            for head in range(target.shape[-1]):
                one, two = target[:, word, head].double(), other[:, word, head].double()
                rows_found.append(
                    {
                        "layer": layer,
                        "head": head,
                        "word": name,
                        "target": float(one.mean()),
                        "other": float(two.mean()),
                        "difference": float((one - two).mean()),
                        "interval": interval((one - two).tolist()),
                        "of": len(drawn),
                    }
                )
    return rows_found


def ablation(model: FourfoldForCausalLM, task: Task) -> list[dict[str, Any]]:
    """Rows of ``ablate``, each with its split, what was held at a time, and when."""
    changed = {
        event.kind
        for example in Source(task).examples("iid", 0, ABLATED)
        for event in events_of(task, example)[1]
        if event.kind in CHANGES
    }
    times: dict[str | None, tuple[str, ...]] = {None: (), "questions": ("question", "answer")}
    if changed:
        times["changes"] = tuple(sorted(changed))
    rows = []
    for split in SPLITS:
        for when, during in times.items():
            held = WHOLE if when is None else ({"rho": 0.0}, {"lam": 0.0})
            found = ablate(
                model,
                task,
                split=split,
                examples=ABLATED,
                by="model",
                held=held,
                during=during or None,
            )
            rows += [{"split": split, "by": "model", "when": when, **row} for row in found]
    found = ablate(model, task, examples=ABLATED, by="head")
    return rows + [{"split": "iid", "by": "head", "when": None, **row} for row in found]


def asked_for(grid: Grid, cell: Cell) -> dict[str, Any]:
    """What a study hangs on."""
    own = {"examples": EXAMPLES, "ablated": ABLATED, "resamples": RESAMPLES}
    return settings(grid, cell) | {"study": own}


def study(grid: Grid, cell: Cell, folder: Path) -> dict[str, Any]:
    """All of one model."""
    task = grid.built_tasks[cell.task]
    model = FourfoldForCausalLM.from_pretrained(folder / "models" / cell.path.with_suffix(""))
    torch.manual_seed(cell.seed)
    untrained = FourfoldForCausalLM(model.config).eval()
    trace, kinds, stages = read(model.eval(), task)
    null, _, _ = read(untrained, task)
    return asked_for(grid, cell) | {
        "means": means(trace, kinds),
        "stages": contrasts(trace, stages, RESAMPLES),
        "untrained": contrasts(null, stages, 0),
        "pairs": pairs(model, task),
        "transport": transport(model, task) if cell.task == "rebind" else [],
        "ablation": ablation(model, task),
        **provenance(),
    }


def main(folder: Path) -> None:
    schedule = Schedule(read_grid(folder / "grid.yaml"))
    gather(schedule, folder)
    for cell in schedule.known():
        path = folder / "study" / cell.path.relative_to("cells")
        if cell not in schedule.results:
            print(f"{cell}: not trained yet", flush=True)
        elif found := read_result(path):
            wanted = asked_for(schedule.grid, cell)
            refuse_other(path, [key for key in wanted if found.get(key) != wanted[key]])
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_result(path, study(schedule.grid, cell, folder))
            print(path, flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))

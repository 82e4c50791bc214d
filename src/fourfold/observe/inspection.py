"""All that a page shows of one reading."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from fourfold.models import FourfoldCache, FourfoldForCausalLM
from fourfold.observe.events import EVENTS, Event, events_of
from fourfold.observe.layers import delta_layers
from fourfold.observe.quantities import QUANTITIES
from fourfold.observe.trace import Trace
from fourfold.observe.watching import observe
from fourfold.tasks import Source, Split, Task

WRITES = {"untouched write", "first write", "update", "value", "marked"}
"""Events that store an item."""

SHARES = ("alpha", "beta", "beta_k", "beta_v", "erase", "write", "rho", "lambda")
"""Quantities from 0 to 1."""

MOST_ITEMS = 40
PIECE = 512
"""Tokens before those that are shown, read at once."""
BEFORE, AFTER = 4, 8
"""Tokens around an event."""

Page = dict[str, Any]


def inspect_reading(
    model: FourfoldForCausalLM,
    tokens: Sequence[int],
    words: Sequence[str],
    events: Sequence[Event],
    *,
    title: str,
    lead: Sequence[str] = (),
    spaced: bool = True,
    cache: FourfoldCache | None = None,
    around: Trace | None = None,
    last: int = 1024,
) -> Page:
    """Let ``model`` read, and put down what its memories did.

    Args:
        tokens: to be read; with none, only the state in ``cache`` is shown.
        words: what is shown for each of them.
        events: what happens at each.
        title, lead: of the page, and sentences below it.
        spaced: whether words are set apart.
        cache: memory to go on from; it stays as it is.
        around: a trace with labels, of many readings, for trajectories around events; None takes
            this one.
        last: tokens that are shown at most, the last of them.

    Returns:
        a mapping that JSON holds; see ``reports.inspection.page``.
    """
    fork = model.new_cache() if cache is None else cache.fork()
    about = {"title": title, "lead": list(lead), "spaced": spaced, "shares": list(SHARES)}
    if not tokens:
        return about | {"layers": [], "states": _states(fork, delta_layers(model)), "ablation": []}
    with torch.no_grad():
        before = torch.tensor([list(tokens[:-last])], device=model.device)
        for piece in before.split(PIECE, dim=1):
            if piece.numel():
                model(piece, cache=fork, logits_to_keep=1)
        tokens, words, events = tokens[-last:], words[-last:], events[-last:]
        with observe(model, vectors=True) as trace:
            model(torch.tensor([list(tokens)], device=model.device), cache=fork, logits_to_keep=1)
    trace.label(_beginnings(events))
    labelled = trace if around is None else around
    known = [kind for kind in EVENTS if kind in labelled.events]
    known += sorted({kind for kind in labelled.events if kind} - set(known))
    return about | {
        "words": list(words),
        "events": [{"kind": event.kind, "item": event.item} for event in events],
        "layers": [_layer(trace, number) for number in trace.kinds],
        "around_events": known,
        "around": {number: _around(labelled, number, known) for number in trace.kinds},
        "readable": {number: _readable(trace, number, words, events) for number in trace.kinds},
        "states": _states(fork, trace.kinds),
        "ablation": [],
    }


def many_readings(
    model: FourfoldForCausalLM, task: Task, *, split: Split = "iid", examples: int = 64
) -> Trace:
    """A trace of examples of a task, each with its first question, labelled with their events."""
    read = []
    for example in Source(task).examples(split, 0, examples):
        question = example.questions[0] if example.questions else None
        read.append(events_of(task, example, question))
    ends = torch.tensor([0] + [len(tokens) for tokens, _ in read]).cumsum(0)
    packed = torch.tensor([[token for tokens, _ in read for token in tokens]])
    with observe(model) as trace, torch.no_grad():
        model(packed.to(model.device), cu_seqlens=ends.to(model.device), use_cache=False)
    for number, (_, events) in enumerate(read):
        trace.label(_beginnings(events), sequence=number)
    return trace


def _beginnings(events: Sequence[Event]) -> list[str]:
    """Kinds of events at the tokens where they begin; "" at the others of the same event."""
    return [
        event.kind if place == 0 or events[place - 1] != event else ""
        for place, event in enumerate(events)
    ]


def _layer(trace: Trace, number: int) -> Page:
    found = trace.values[number]
    return {
        "index": number,
        "kind": trace.kinds[number],
        "heads": next(iter(found.values())).shape[1],
        "quantities": {
            name: {"meaning": QUANTITIES[name], "values": _numbers(values)}
            for name, values in found.items()
        },
    }


def _around(trace: Trace, number: int, kinds: Sequence[str]) -> Page:
    found = {}
    for kind in kinds:
        quantities, count = {}, 0
        for name in trace.values[number]:
            mean, deviation, count = trace.around(kind, number, name, before=BEFORE, after=AFTER)
            quantities[name] = {"mean": _numbers(mean), "deviation": _numbers(deviation)}
        steps = list(range(-BEFORE, AFTER + 1))
        found[kind] = {"count": count, "steps": steps, "quantities": quantities}
    return found


def _readable(trace: Trace, number: int, words: Sequence[str], events: Sequence[Event]) -> Page:
    """What was written, and how well it can be read later."""
    places = _items(trace, number, words, events)[:MOST_ITEMS]
    scores = trace.readable(number, places) if places else torch.zeros(0, 0, 0)
    return {
        "items": [
            {"place": place, "label": f"{events[place].item} {words[place]}".strip()}
            for place in places
        ],
        "values": [_numbers(scores[:, index]) for index in range(len(places))],
    }


def _items(trace: Trace, number: int, words: Sequence[str], events: Sequence[Event]) -> list[int]:
    """Tokens that store something: the values of writes; where the text has no writes, those that
    changed the state most."""
    written = [
        place
        for place, (word, event) in enumerate(zip(words, events, strict=True))
        if event.kind in WRITES and word[0] == "v"
    ]
    if written:
        return written
    rows = trace.rows[number]
    foreseen = rows.e - rows.walk().residual
    change = (rows.write * rows.e - rows.erase * foreseen).norm(dim=-1)
    change = (rows.d.norm(dim=-1) * change).sum(-1)[0]
    return sorted(change.topk(min(MOST_ITEMS // 2, len(change))).indices.tolist())


def _states(cache: FourfoldCache, layers: Iterable[int]) -> list[Page]:
    """Norm and effective rank of each head's state at the end: how full it is."""
    rows = []
    for number in layers:
        memory: Tensor = cache.named_tensors()[f"layers.{number}.memory"][0].float()
        values = torch.linalg.svdvals(memory)
        shares = values.square() / values.square().sum(-1, keepdim=True).clamp_min(1e-30)
        entropy = -(shares * shares.clamp_min(1e-30).log()).sum(-1)
        for head, (norm, rank) in enumerate(
            zip(memory.flatten(-2).norm(dim=-1).tolist(), entropy.exp().tolist(), strict=True)
        ):
            rows.append(
                {
                    "layer": number,
                    "head": head,
                    "norm": norm,
                    "rank": rank,
                    "of": min(memory.shape[-2:]),
                }
            )
    return rows


def _numbers(values: Tensor) -> list[Any]:
    """Numbers of four digits; None for what is not finite."""

    def plain(x: Any) -> Any:
        if isinstance(x, list):
            return [plain(one) for one in x]
        return float(f"{x:.4g}") if math.isfinite(x) else None

    found: list[Any] = plain(values.tolist())
    return found

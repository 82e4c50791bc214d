"""All that a page shows of one reading."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from fourfold.models import FourfoldCache, FourfoldForCausalLM
from fourfold.observe.events import EVENTS, Event, events_of
from fourfold.observe.items import Item, read_by
from fourfold.observe.layers import delta_layer, delta_layers
from fourfold.observe.quantities import QUANTITIES
from fourfold.observe.trace import Trace
from fourfold.observe.watching import observe
from fourfold.tasks import Source, Split, Task

SHARES = ("alpha", "beta", "beta_k", "beta_v", "erase", "write", "rho", "lambda")
"""Quantities from 0 to 1."""

MOST_ITEMS = 40
MOST_CHANGES = 20
"""Tokens that are taken for items where nothing says what is stored."""
PIECE = 512
"""Tokens before those that are shown, read at once."""
BEFORE, AFTER = 4, 8
"""Tokens around an event."""
CONTEXT = 8
"""Letters by which a token of a text is told from others."""

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
    items: Sequence[Item] = (),
    cache: FourfoldCache | None = None,
    around: Trace | None = None,
    layers: Sequence[int] | None = None,
    last: int = 1024,
) -> Page:
    """Let ``model`` read, and put down what its memories did.

    Args:
        tokens: to be read; with none, only the state in ``cache`` is shown.
        words: what is shown for each of them; "" for one that is part of the letter before it.
        events: what happens at each.
        title, lead: of the page, and sentences below it.
        spaced: whether words are set apart.
        items: what is stored and asked for, by places in ``tokens``; with none, the tokens that
            changed each state most.
        cache: memory to go on from; it stays as it is.
        around: a trace with labels, of many readings, for trajectories around events; None takes
            this one.
        layers: those that are shown; None for all that hold a state of this kind.
        last: tokens that are shown at most, the last of them.

    Returns:
        a mapping that JSON holds; see ``reports.inspection.page``.

    Raises:
        ValueError: a layer is not there or has no such memory, or none has.
    """
    fork = model.new_cache() if cache is None else cache.fork()
    numbers = list(delta_layers(model) if layers is None else layers)
    for number in numbers:
        delta_layer(model, number, argument="layers")
    about = {"title": title, "lead": list(lead), "spaced": spaced, "shares": list(SHARES)}
    if not tokens:
        return about | {"layers": [], "states": _states(fork, numbers), "ablation": []}
    cut = max(0, len(tokens) - last)
    while cut and cut < len(tokens) - 1 and not words[cut]:
        cut += 1  # what is shown begins with a whole letter
    with torch.no_grad():
        before = torch.tensor([list(tokens[:cut])], device=model.device)
        for piece in before.split(PIECE, dim=1):
            if piece.numel():
                model(piece, cache=fork, logits_to_keep=1)
        lost = _ended(events, cut)
        tokens, words, events = tokens[cut:], words[cut:], events[cut:]
        with observe(model, numbers, vectors=True) as trace:
            model(torch.tensor([list(tokens)], device=model.device), cache=fork, logits_to_keep=1)
    trace.label(_beginnings(events))
    labelled = trace if around is None else around
    known = [kind for kind in EVENTS if kind in labelled.events]
    known += sorted({kind for kind in labelled.events if kind} - set(known))
    shown = [item for item in (item.behind(cut) for item in items) if item.places]
    return about | {
        "words": list(words),
        "events": [{"kind": event.kind, "item": event.item} for event in events],
        "first": int(trace.position[0]),
        "left_out": {"tokens": cut, "events": lost},
        "layers": [_layer(trace, number) for number in trace.kinds],
        "around_events": known,
        "around": {number: _around(labelled, number, known) for number in trace.kinds},
        "readable": {
            number: _readable(trace, number, shown or _changes(trace, number, words, spaced))
            for number in trace.kinds
        },
        "states": _states(fork, trace.kinds),
        "ablation": [],
    }


def many_readings(
    model: FourfoldForCausalLM,
    task: Task,
    *,
    split: Split = "iid",
    examples: int = 64,
    layers: Sequence[int] | None = None,
) -> Trace:
    """A trace of examples of a task, each with its first question, labelled with their events."""
    read = []
    for example in Source(task).examples(split, 0, examples):
        question = example.questions[0] if example.questions else None
        read.append(events_of(task, example, question))
    ends = torch.tensor([0] + [len(tokens) for tokens, _ in read]).cumsum(0)
    packed = torch.tensor([[token for tokens, _ in read for token in tokens]])
    with observe(model, layers) as trace, torch.no_grad():
        model(packed.to(model.device), cu_seqlens=ends.to(model.device), use_cache=False)
    for number, (_, events) in enumerate(read):
        trace.label(_beginnings(events), sequence=number)
    return trace


def _ended(events: Sequence[Event], cut: int) -> int:
    """How many events lie wholly in the first ``cut`` tokens."""
    begun = sum(1 for kind in _beginnings(events[:cut]) if kind)
    goes_on = cut > 0 and events[cut].kind != "" and events[cut] == events[cut - 1]
    return begun - goes_on


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


def _readable(trace: Trace, number: int, items: Sequence[Item]) -> Page:
    """What was stored, and how well it can be read later."""
    stored = [item for item in items if item.question is None]
    asked = [item for item in items if item.question is not None][:MOST_ITEMS]
    shown = stored[-MOST_ITEMS:]
    places = [place for item in shown for place in item.places]
    by_address = trace.readable(number, places) if places else torch.zeros(0)
    rows = [*asked, *shown]
    scores = [read_by(trace.rows[number], item) for item in asked]
    scores += by_address.split([len(item.places) for item in shown], 1) if places else []
    return {
        "items": [
            {
                "places": list(item.places),
                "label": item.label,
                "kind": item.event.kind,
                "question": item.question,
                "role": item.role,
            }
            for item in rows
        ],
        "left_out": len(stored) - len(shown),
        "values": [
            _numbers(_best(score) if item.role == "other" else score.nanmean(1))
            for item, score in zip(rows, scores, strict=True)
        ],
    }


def _best(scores: Tensor) -> Tensor:
    """The greatest over places, (T, H) of (T, P, H); NaN where none is."""
    best = scores.nan_to_num(nan=-math.inf).amax(1)
    return best.masked_fill(best.isinf(), math.nan)


def _changes(trace: Trace, number: int, words: Sequence[str], spaced: bool) -> list[Item]:
    """The tokens that changed the state most."""
    rows = trace.rows[number]
    foreseen = rows.e - rows.walk().residual
    change = (rows.write * rows.e - rows.erase * foreseen).norm(dim=-1)
    change = (rows.d.norm(dim=-1) * change).sum(-1)[0]
    places = sorted(change.topk(min(MOST_CHANGES, len(change))).indices.tolist())
    return [Item(Event(""), (place,), _here(words, place, spaced)) for place in places]


def _here(words: Sequence[str], place: int, spaced: bool) -> str:
    """A token with what stands before it."""
    before, word = words[max(0, place - CONTEXT) : place], words[place]
    if spaced:
        return " ".join([*before[-1:], word])
    return "".join(before)[max(0, len("".join(before)) + len(word) - CONTEXT) :] + word


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

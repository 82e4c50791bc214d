"""Which head's which coordinate matters: exact match with each held in turn."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from statistics import fmean
from typing import Any, Literal, get_args

from torch import Tensor

from fourfold.evaluation.answers import decode
from fourfold.evaluation.scores import bootstrap, exact
from fourfold.layers import ATPM
from fourfold.models import FourfoldForCausalLM
from fourfold.observe.events import places_of
from fourfold.observe.intervening import Value, intervene, names_of
from fourfold.observe.layers import delta_layers
from fourfold.observe.watching import observe
from fourfold.settings import one_of
from fourfold.tasks import Example, Source, Split, Task

OF_ATPM: tuple[dict[str, float], ...] = (
    {"rho": 0.0},
    {"lam": 0.0},
    {"lam": 1.0},
    {"alpha": 1.0},
    {"beta_k": 0.0},
    {"beta_v": 0.0},
    {"beta": 0.0},
)
OF_OTHERS: tuple[dict[str, float], ...] = ({"alpha": 1.0}, {"beta": 0.0})
"""What is held unless told otherwise; with β at 0 a head stores nothing."""

MEAN: Literal["mean"] = "mean"
Held = Mapping[str, float | Literal["mean"]]
"""Coordinates and their values; "mean" is each head's own mean over what is read."""

By = Literal["head", "layer", "model"]


def ablate(
    model: FourfoldForCausalLM,
    task: Task,
    *,
    split: Split = "iid",
    examples: int = 100,
    by: By = "head",
    held: Sequence[Held] | None = None,
    during: Sequence[str] | None = None,
) -> list[dict[str, Any]]:
    """Exact match with coordinates of one head held, the greatest loss first.

    Args:
        split, examples: of the task, and how many from its beginning.
        by: whether one head is held at a time, one "layer" with all its heads, or the whole
            "model".
        held: what is held, one after the other, where there are such coordinates; None for
            ``OF_ATPM`` or ``OF_OTHERS``. Holding a coordinate at its "mean" tells whether it
            matters that it varies.
        during: kinds of events at whose tokens alone it is held, such as "update"; None for all.

    Returns:
        the first row is of the model as it is; each has layer and head (None for all), held,
        exact_match, loss, by how much that is less than of the model as it is, and the 95 %
        interval of the loss: both models answer the same questions, and whole examples are drawn
        anew. Of a mixture, these are means over its tasks.

    Raises:
        ValueError: no layer has a delta-rule memory or a coordinate that is named, a kind of event
            is not known or happens nowhere; a sentence.
    """
    one_of("by", by, get_args(By))
    drawn = Source(task).examples(split, 0, examples)
    # The order in which ``decode`` reads them, and ``at`` counts them.
    drawn.sort(key=lambda example: len(example.context))
    at = None if during is None else [places_of(task, example, during) for example in drawn]
    if at is not None and not any(at):
        raise ValueError(f"None of the examples has an event of {', '.join(during or ())}.")

    def answers() -> list[tuple[Example, float]]:
        return [(drawn[answer.example], exact(answer)) for answer in decode(model, drawn)]

    whole, means = answers(), _means(model, drawn) if _asks_for_means(held) else {}

    def row(layer: int | None, head: int | None, what: Held) -> dict[str, Any]:
        with _holding(model, means, layer=layer, head=head, at=at, held=what):
            found = answers()
        losses = [
            (example, before - after)
            for (example, before), (_, after) in zip(whole, found, strict=True)
        ]
        return {
            "layer": layer,
            "head": head,
            "held": dict(what),
            "exact_match": _mean(found),
            "loss": _mean(losses),
            "interval": list(bootstrap(_strata(losses))),
        }

    rows = [row(layer, head, what) for layer, head, what in _cases(model, by, held)]
    rows.sort(key=lambda row: -row["loss"])
    first: dict[str, Any] = {"layer": None, "head": None, "held": {}, "exact_match": _mean(whole)}
    return [first | {"loss": 0.0, "interval": [0.0, 0.0]}, *rows]


def _cases(
    model: FourfoldForCausalLM, by: By, held: Sequence[Held] | None
) -> Iterator[tuple[int | None, int | None, Held]]:
    """Layer, head, and what is held there.

    Raises:
        ValueError: no layer has it.
    """
    memories = delta_layers(model)
    for what in held or ():
        names = list(chain.from_iterable(map(names_of, memories.values())))
        for name, value in what.items():
            one_of("held", name, dict.fromkeys(names))
            if isinstance(value, str) and value != MEAN:
                raise ValueError(f'{name} must be held at a number or "mean"; got {value!r}.')
    kinds = [OF_ATPM if isinstance(memory, ATPM) else OF_OTHERS for memory in memories.values()]
    if by == "model":
        usual = {str(what): what for kind in kinds for what in kind}.values()
        yield from ((None, None, what) for what in (usual if held is None else held))
        return
    for (number, memory), kind in zip(memories.items(), kinds, strict=True):
        for head in range(memory.num_heads) if by == "head" else (None,):
            for what in kind if held is None else held:
                if all(name in names_of(memory) for name in what):
                    yield number, head, what


@contextmanager
def _holding(
    model: FourfoldForCausalLM,
    means: Mapping[int, Mapping[str, Tensor]],
    *,
    layer: int | None,
    head: int | None,
    at: Sequence[Sequence[int]] | None,
    held: Held,
) -> Iterator[None]:
    memories = delta_layers(model)
    with ExitStack() as stack:
        for number in memories if layer is None else [layer]:
            values: dict[str, Value] = {}
            for name, value in held.items():
                if name not in names_of(memories[number]):
                    continue
                values |= _own(name, means[number]) if value == MEAN else {name: float(value)}
            if values:
                stack.enter_context(
                    intervene(model, layer=number, head=head, start=0, at=at, **values)
                )
        yield


def _asks_for_means(held: Sequence[Held] | None) -> bool:
    return any(MEAN in what.values() for what in held or ())


def _means(model: FourfoldForCausalLM, examples: Sequence[Example]) -> dict[int, dict[str, Tensor]]:
    """Means of quantities by layer, (H,) each, over all that is read and answered."""
    with observe(model, last=1) as trace:
        decode(model, examples)
    return {
        layer: {name: summary.mean for name, summary in found.items()}
        for layer, found in trace.summaries.items()
    }


def _own(name: str, means: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The means of a coordinate, under the names by which it can be held."""
    seen = "lambda" if name == "lam" else name
    if seen in means:
        return {name: means[seen]}
    if name == "beta":
        parts = ("beta_k", "beta_v", "erase", "write")
        return {part: means[part] for part in parts if part in means}
    return {name: means["beta"]}


def _strata(values: Sequence[tuple[Example, float]]) -> list[list[list[float]]]:
    """By task, then by example."""
    found: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for example, value in values:
        found[example.task][id(example)].append(value)
    return [list(by_example.values()) for by_example in found.values()]


def _mean(values: Sequence[tuple[Example, float]]) -> float:
    return fmean(fmean(chain.from_iterable(stratum)) for stratum in _strata(values))

"""How much a trained model keeps apart: exact match against the number of items."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fourfold.evaluation.answers import check_symbols, decode
from fourfold.evaluation.scores import summarise
from fourfold.models import FourfoldForCausalLM
from fourfold.tasks import Source, make_task


def trained_capacity(
    model: FourfoldForCausalLM,
    task: str,
    settings: dict[str, Any],
    *,
    items: Sequence[int],
    examples: int = 200,
) -> Iterator[dict[str, Any]]:
    """Scores of a model on a task at each load.

    Args:
        task: such as kv_recall, whose load is its pairs.
        settings: fields of the task that the model was trained with, but for the loads.
        items: loads.
        examples: at each.

    Returns:
        a row each: items, and what ``summarise`` has.

    Raises:
        ValueError: the task has no such field or not as many symbols, or the model was trained on
            another vocabulary.
    """
    for load in items:
        loads = {split: (load, load) for split in ("iid", "ood", "stress")}
        built = make_task(task, settings | {"loads": loads})
        check_symbols(model, built)
        drawn = Source(built).examples("iid", 0, examples)
        yield {"items": load, **summarise(drawn, decode(model, drawn))}

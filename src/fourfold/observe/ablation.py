"""Which head's which coordinate matters: exact match with each held in turn."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from fourfold.evaluation.answers import decode
from fourfold.evaluation.scores import exact
from fourfold.layers import ATPM
from fourfold.models import FourfoldForCausalLM
from fourfold.observe.intervening import intervene
from fourfold.observe.layers import delta_layers
from fourfold.tasks import Example

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
"""What is held; with β at 0 a head stores nothing."""


def ablate(model: FourfoldForCausalLM, examples: Sequence[Example]) -> list[dict[str, Any]]:
    """Exact match with one coordinate of one head held, the greatest loss first.

    Returns:
        the first row is of the model as it is; each has layer, head, held, exact_match, and loss,
        by how much that is less than of the model as it is.
    """

    def score() -> float:
        return fmean(exact(answer) for answer in decode(model, examples))

    whole = score()
    rows: list[dict[str, Any]] = []
    for number, memory in delta_layers(model).items():
        for head in range(memory.num_heads):
            for held in OF_ATPM if isinstance(memory, ATPM) else OF_OTHERS:
                with intervene(model, layer=number, head=head, start=0, **held):
                    found = score()
                rows.append(
                    {
                        "layer": number,
                        "head": head,
                        "held": held,
                        "exact_match": found,
                        "loss": whole - found,
                    }
                )
    rows.sort(key=lambda row: -row["loss"])
    first: dict[str, Any] = {
        "layer": None,
        "head": None,
        "held": {},
        "exact_match": whole,
        "loss": 0.0,
    }
    return [first, *rows]

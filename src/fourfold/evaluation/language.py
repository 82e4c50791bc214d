"""How well a model foresees text, and whether a later token profits from its memory."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fourfold.data.lanes import IGNORED, Lanes, Memory
from fourfold.data.order import Order
from fourfold.evaluation.mode import measuring
from fourfold.models import FourfoldForCausalLM
from fourfold.training.window_loss import window_losses


@dataclass(frozen=True)
class PositionLoss:
    """Of the tokens that a memory had read ``start`` to before ``stop`` tokens ahead of."""

    start: int
    stop: int
    tokens: int
    nats: float
    """A token."""


@dataclass(frozen=True)
class LanguageScore:
    """What ``evaluate_text`` measured.

    Attributes:
        tokens: that were predicted; the first of each document is read only.
        nats: a token.
        perplexity: eⁿᵃᵗˢ.
        bits_per_byte: by the bytes that these tokens stand for, see ``Window.bytes``.
        by_position: by how much the memory had read, in steps of powers of two.
    """

    tokens: int
    nats: float
    perplexity: float
    bits_per_byte: float
    by_position: list[PositionLoss]


def evaluate_text(
    model: FourfoldForCausalLM,
    order: Order,
    *,
    memory: Memory = "document",
    length: int = 512,
    lanes: int = 8,
    tokens: int | None = None,
) -> LanguageScore:
    """Let ``model`` read the documents of ``order``.

    Args:
        memory: where it starts empty: at every window, at every document, or only at the first of
            each lane.
        length: tokens that a lane reads at once; a limit of the memory only for "window".
        lanes: documents that are read side by side.
        tokens: stop after so many; None reads to the end of the order.

    Raises:
        ValueError: there is nothing to predict.
    """
    totals = torch.zeros(64, 2, dtype=torch.float64)
    size = 0.0
    cache = None if memory == "window" else model.new_cache()
    with measuring(model):
        for window in Lanes(order, lanes=lanes, length=length, memory=memory):
            size += float(window.bytes)
            window = window.to(model.device)
            losses = window_losses(model, window, cache).double().cpu()
            predicted = (window.targets != IGNORED).cpu()
            bins = _bin(window.positions.cpu()[predicted])
            totals[:, 0].index_add_(0, bins, losses[predicted])
            totals[:, 1].index_add_(0, bins, torch.ones(len(bins), dtype=torch.float64))
            if tokens is not None and totals[:, 1].sum() >= tokens:
                break
    nats_of_all, count = totals.sum(0).tolist()
    if not count:
        raise ValueError("The text holds no token that could be predicted from one before it.")
    mean = nats_of_all / count
    return LanguageScore(
        tokens=int(count),
        nats=mean,
        perplexity=math.exp(mean),
        bits_per_byte=nats_of_all / math.log(2) / size,
        by_position=[
            PositionLoss(
                start=0 if number == 0 else 2 ** (number - 1),
                stop=2**number,
                tokens=int(predicted),
                nats=nats / predicted,
            )
            for number, (nats, predicted) in enumerate(totals.tolist())
            if predicted
        ],
    )


def _bin(positions: Tensor) -> Tensor:
    """0 for 0, 1 for 1, 2 for 2 and 3, 3 for 4 to 7 and so on."""
    return torch.where(positions > 0, positions.clamp(min=1).double().log2().floor().long() + 1, 0)

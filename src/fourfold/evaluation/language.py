"""How well a model foresees text, and whether a later token profits from its memory."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fourfold.data.lanes import Lanes, Memory
from fourfold.data.order import Order
from fourfold.evaluation.mode import measuring
from fourfold.evaluation.positions import PositionLoss, PositionTotals
from fourfold.models import FourfoldForCausalLM
from fourfold.ops.pointwise import IGNORED
from fourfold.training.window_loss import window_losses


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
    totals = PositionTotals()
    size = 0.0
    cache = None if memory == "window" else model.new_cache()
    with measuring(model):
        for window in Lanes(order, lanes=lanes, length=length, memory=memory):
            size += float(window.bytes)
            window = window.to(model.device)
            losses = window_losses(model, window, cache).cpu()
            predicted = (window.targets != IGNORED).cpu()
            totals.add(window.positions.cpu()[predicted], losses[predicted])
            if tokens is not None and totals.tokens >= tokens:
                break
    if not totals.tokens:
        raise ValueError("The text holds no token that could be predicted from one before it.")
    mean = totals.nats / totals.tokens
    return LanguageScore(
        tokens=totals.tokens,
        nats=mean,
        perplexity=math.exp(mean),
        bits_per_byte=totals.nats / math.log(2) / size,
        by_position=totals.parts(),
    )

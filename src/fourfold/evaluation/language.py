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

DIVERGED = "the model's weights are damaged, or its training diverged."


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


def lanes_for(memory: Memory) -> int:
    """Lanes to read a text by: one where the memory goes on from each document to the next."""
    return 1 if memory == "stream" else 8


def evaluate_text(
    model: FourfoldForCausalLM,
    order: Order,
    *,
    memory: Memory = "document",
    length: int = 512,
    lanes: int | None = None,
    tokens: int | None = None,
) -> LanguageScore:
    """Let ``model`` read the documents of ``order``.

    Args:
        memory: where it starts empty: at every window, at every document, or only at the first of
            each lane ("stream").
        length: tokens that a lane reads at once; a limit of the memory only for "window".
        lanes: documents that are read side by side, each lane with a memory of its own; None takes
            ``lanes_for``.
        tokens: stop after so many; None reads to the end of the order.

    Raises:
        ValueError: there is nothing to predict.
        ArithmeticError: the loss is no finite number, or too large for a perplexity.
    """
    lanes = lanes or lanes_for(memory)
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
            if not math.isfinite(totals.nats):
                raise ArithmeticError(
                    f"The loss became {totals.nats} within the first {totals.tokens:,} tokens: "
                    f"{DIVERGED}"
                )
            if tokens is not None and totals.tokens >= tokens:
                break
    if not totals.tokens:
        raise ValueError("The text holds no token that could be predicted from one before it.")
    mean = totals.nats / totals.tokens
    return LanguageScore(
        tokens=totals.tokens,
        nats=mean,
        perplexity=_perplexity(mean),
        bits_per_byte=totals.nats / math.log(2) / size,
        by_position=totals.parts(),
    )


def _perplexity(nats: float) -> float:
    try:
        return math.exp(nats)
    except OverflowError as error:
        raise ArithmeticError(
            f"The loss is {nats:,.1f} nats a token, of which the perplexity is too large a number: "
            f"{DIVERGED}"
        ) from error

"""How well a model predicts text."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from fourfold.evaluation.mode import measuring
from fourfold.models import FourfoldForCausalLM
from fourfold.models.tokenizer import BYTES


def windows(stream: Tensor, *, length: int, count: int) -> Tensor:
    """(count, length) windows spread evenly over ``stream``; fewer if it is too short for that.

    Raises:
        ValueError: the stream is shorter than one window.
    """
    if len(stream) < length:
        raise ValueError(f"A window of {length} tokens needs as many; the text has {len(stream)}.")
    count = min(count, len(stream) // length)
    starts = torch.arange(count) * (len(stream) - length) // max(1, count - 1)
    return torch.stack([stream[start : start + length] for start in starts]).long()


def bits_per_byte(model: FourfoldForCausalLM, batch: Tensor, *, batch_size: int = 16) -> float:
    """Bits that the model needs for a byte of text, reading each row of byte tokens from nothing.

    Args:
        batch: (rows, T) byte tokens. The first of a row is read but not predicted; an end of text
            costs bits but is no byte.
    """
    nats, count = 0.0, 0
    with measuring(model):
        for rows in batch.split(batch_size):
            logits = model(rows, use_cache=False).logits[:, :-1]
            targets = rows[:, 1:].flatten()
            nats += float(F.cross_entropy(logits.flatten(0, 1).float(), targets, reduction="sum"))
            count += int((targets < BYTES).sum())
    return nats / math.log(2) / max(count, 1)

"""The loss of a causal language model."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fourfold.ops.pointwise import IGNORED, cross_entropy_sum


def next_token_loss(
    logits: Tensor,
    labels: Tensor,
    vocab_size: int,
    num_items_in_batch: Tensor | int | None = None,
    ignore_index: int = IGNORED,
    **_: Any,
) -> Tensor:
    """Mean cross-entropy of each token given those before it; nats, in float32 at least.

    Takes what transformers gives a ``loss_function``.

    Args:
        logits: (B, T, vocab_size).
        labels: (B, T), as the input; shifted here. ``ignore_index`` is not counted.
        num_items_in_batch: divisor in place of the number of labels.
    """
    shifted = F.pad(labels, (0, 1), value=ignore_index)[..., 1:].reshape(-1)
    precise = torch.promote_types(logits.dtype, torch.float32)
    total = cross_entropy_sum(logits.reshape(-1, vocab_size).to(precise), shifted, ignore_index)
    if num_items_in_batch is None:
        return total / (shifted != ignore_index).sum()
    return total / num_items_in_batch

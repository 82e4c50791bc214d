"""Cross-entropy of answers while the right ones are read."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor

from fourfold.evaluation.mode import measuring
from fourfold.models import FourfoldForCausalLM
from fourfold.tasks.batch import PackedBatch, pack
from fourfold.tasks.example import Example


def target_logits(model: FourfoldForCausalLM, batch: PackedBatch) -> Tensor:
    """(M, vocab_size): the logits at the places of ``batch`` where something is to be predicted."""
    hidden = model.model(batch.tokens, cu_seqlens=batch.cu_seqlens).last_hidden_state
    return model.lm_head(hidden[0, batch.places])


def answer_cross_entropy(
    model: FourfoldForCausalLM, examples: Sequence[Example], *, batch_size: int = 64
) -> tuple[float, float]:
    """Teacher-forced cross-entropy, nats a token of the answers, and the share of tokens named
    right; all questions of an example follow each other."""
    total, right, count = 0.0, 0, 0
    with measuring(model):
        for start in range(0, len(examples), batch_size):
            batch = pack(examples[start : start + batch_size])
            logits = target_logits(model, batch)
            total += float(F.cross_entropy(logits.float(), batch.targets, reduction="sum"))
            right += int((logits.argmax(-1) == batch.targets).sum())
            count += len(batch.targets)
    return total / max(count, 1), right / max(count, 1)

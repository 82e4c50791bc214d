"""Examples side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from fourfold.ops.pointwise import IGNORED
from fourfold.tasks.example import Example


@dataclass(frozen=True)
class PackedBatch:
    """Examples packed into one row, without padding.

    Attributes:
        tokens: (1, L), one example after another.
        places: (M,), where in the row something is to be predicted.
        targets: (M,), what.
        cu_seqlens: (N + 1,), where each example starts, and L.
    """

    tokens: Tensor
    places: Tensor
    targets: Tensor
    cu_seqlens: Tensor


def pack(examples: Sequence[Example]) -> PackedBatch:
    """All examples with all their questions, as they are trained on."""
    sequences = [example.sequence() for example in examples]
    tokens = torch.tensor([token for sequence, _ in sequences for token in sequence])
    targets = torch.tensor([target for _, sequence in sequences for target in sequence])
    places = (targets != IGNORED).nonzero().flatten()
    ends = accumulate((len(sequence) for sequence, _ in sequences), initial=0)
    return PackedBatch(
        tokens=tokens[None],
        places=places,
        targets=targets[places],
        cu_seqlens=torch.tensor(list(ends), dtype=torch.int32),
    )

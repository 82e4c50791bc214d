"""Padded rows and packed sequences, turned into each other.

A padding mask (B, T) is true where a token is. Packed, the tokens of all rows follow one another in
one row, and ``cu_seqlens`` (B + 1,) holds where each row starts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

import torch
from torch import Tensor

from fourfold.layers.state import State, joined


def offsets_of(mask: Tensor) -> Tensor:
    """(B, T) mask -> (B + 1,) cu_seqlens."""
    lengths = mask.sum(1)
    return torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])


def mask_of(cu_seqlens: Tensor) -> Tensor:
    """(N + 1,) cu_seqlens -> (N, longest) mask with the tokens at the left."""
    lengths = cu_seqlens.diff()
    longest = int(lengths.max()) if lengths.numel() else 0
    return torch.arange(longest, device=cu_seqlens.device) < lengths[:, None]


SPARED = 512
"""Tokens of padding that cost a small layer about as much as one more call of its operators."""


def groups_of(lengths: Sequence[int]) -> list[list[int]]:
    """Sequences of like length together, by their numbers: those of a group that are shorter than
    half of its longest have ``SPARED`` tokens of padding at most, so that rows of the longest take
    at most so much more than twice the tokens.
    """
    groups: list[list[int]] = []
    longest = padding = 0
    for number in sorted(range(len(lengths)), key=lambda number: -lengths[number]):
        if longest > 2 * lengths[number]:
            padding += longest - lengths[number]
        if not groups or padding > SPARED:
            groups.append([])
            longest, padding = lengths[number], 0
        groups[-1].append(number)
    return groups


def in_groups(
    x: Tensor,
    cu_seqlens: Tensor,
    read: Callable[[Tensor, Tensor, list[int]], tuple[Tensor, State]],
) -> tuple[Tensor, State]:
    """Packed sequences read group by group, so that a long one does not lengthen all rows.

    Args:
        x: (1, tokens, ·).
        cu_seqlens: (N + 1,).
        read: called with packed sequences, their offsets and their numbers, for y and their state.
    """
    lengths = cu_seqlens.diff().tolist()
    groups = groups_of(lengths)
    if len(groups) < 2:
        return read(x, cu_seqlens, list(range(len(lengths))))
    sequences = x.split(lengths, 1)
    outputs: dict[int, Tensor] = {}
    states = []
    for group in groups:
        offsets = torch.tensor([0, *accumulate(lengths[number] for number in group)])
        y, state = read(
            torch.cat([sequences[number] for number in group], 1),
            offsets.to(cu_seqlens),
            group,
        )
        outputs.update(zip(group, y.split([lengths[number] for number in group], 1), strict=True))
        states.append(state)
    numbers = [number for group in groups for number in group]
    return torch.cat([outputs[number] for number in sorted(numbers)], 1), joined(states, numbers)


def pack(x: Tensor, mask: Tensor) -> Tensor:
    """(B, T, ...) -> (1, tokens, ...)."""
    return x[mask][None]


def unpack(x: Tensor, mask: Tensor) -> Tensor:
    """(1, tokens, ...) -> (B, T, ...), zero where the mask is false."""
    rows = x.new_zeros(*mask.shape, *x.shape[2:])
    rows[mask] = x[0]
    return rows

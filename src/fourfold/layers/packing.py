"""Padded rows and packed sequences, turned into each other.

A padding mask (B, T) is true where a token is. Packed, the tokens of all rows follow one another in
one row, and ``cu_seqlens`` (B + 1,) holds where each row starts.
"""

from __future__ import annotations

import torch
from torch import Tensor


def offsets_of(mask: Tensor) -> Tensor:
    """(B, T) mask -> (B + 1,) cu_seqlens."""
    lengths = mask.sum(1)
    return torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])


def mask_of(cu_seqlens: Tensor) -> Tensor:
    """(N + 1,) cu_seqlens -> (N, longest) mask with the tokens at the left."""
    lengths = cu_seqlens.diff()
    longest = int(lengths.max()) if lengths.numel() else 0
    return torch.arange(longest, device=cu_seqlens.device) < lengths[:, None]


def pack(x: Tensor, mask: Tensor) -> Tensor:
    """(B, T, ...) -> (1, tokens, ...)."""
    return x[mask][None]


def unpack(x: Tensor, mask: Tensor) -> Tensor:
    """(1, tokens, ...) -> (B, T, ...), zero where the mask is false."""
    rows = x.new_zeros(*mask.shape, *x.shape[2:])
    rows[mask] = x[0]
    return rows

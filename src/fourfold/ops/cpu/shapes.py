"""What the kernels keep between the passes, told without importing Numba."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor


def chunk_length(tokens: int, address: int, columns: int) -> int:
    """C: the triangles in a chunk cost C a token, the states kept between chunks S D / C."""
    return 64 if tokens <= 64 or address * columns >= 1 << 14 else 32


def kept_shapes(
    shape: Sequence[int], columns: int, offsets: Tensor | None, keep: bool
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes of the predictions and of the transposed states before each chunk.

    Args:
        shape: (B, T, H, S) of the addresses.
        columns: D.
        offsets: (N + 1,) of packed sequences, or None.
        keep: whether anything is kept at all.
    """
    batch, tokens, heads, address = shape
    if not keep:
        return (0,), (0,)
    chunk = chunk_length(tokens, address, columns)
    if offsets is None:
        chunks = batch * -(-tokens // chunk)
    else:  # the most there can be
        chunks = tokens // chunk + offsets.shape[0] - 1
    return (batch, tokens, heads, columns), (chunks, heads, columns, address)

"""Attention divided into a short and a long reach, as Memory Mosaics divides its memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from fourfold.layers.attention import Attention
from fourfold.layers.reach import check_reach, default_delays
from fourfold.layers.side_by_side import SideBySide


class LongShortAttention(SideBySide):
    """Softmax attention to the last h tokens beside one to all that are m or more away.

    The control of arXiv 2507.03285, figure 5: whether the division alone makes the difference. The
    paper does not give its details; here each reach has all heads and the border between them is
    drawn while training, as in ``Mosaic``, so that nothing but the memory differs; and positions
    turn keys and queries in both, as in ``Attention``.

    Args:
        hidden_size, num_heads, head_dim, num_kv_heads, rope_theta: see ``Attention``.
        window: h.
        delay: m outside of training.
        training_delay, delay_draw: of m while training, as in ``Mosaic``.
    """

    def __init__(
        self,
        *,
        hidden_size: int,
        num_heads: int,
        head_dim: int,
        num_kv_heads: int | None = None,
        rope_theta: float = 10_000.0,
        window: int = 256,
        delay: int = 64,
        training_delay: Sequence[int] | None = None,
        delay_draw: str = "call",
    ) -> None:
        attention = partial(
            Attention,
            hidden_size=hidden_size,
            num_heads=num_heads,
            head_dim=head_dim,
            num_kv_heads=num_kv_heads,
            rope_theta=rope_theta,
        )
        between = training_delay or default_delays(window, delay)
        long = attention(delay=delay, training_delay=between, delay_draw=delay_draw)
        check_reach(window, delay, between, delay_draw)
        super().__init__({"short": attention(sliding_window=window), "long": long})

"""Memory Mosaics: memories of pairs with a short and a long reach."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from fourfold.layers.associative_memory import AssociativeMemory
from fourfold.layers.reach import default_delays
from fourfold.layers.side_by_side import SideBySide


class Mosaic(SideBySide):
    """The memory of Memory Mosaics v2: a short and a long one, with parameters of their own.

    The short memory reads pairs t − h + 1 … t − 1, the long one all pairs up to t − m. While
    training m is drawn at random, so that the long one learns to match contents wherever the border
    lies.

    Args:
        hidden_size: size of x.
        num_heads: H, of each of the two; the paper's numbers of parameters say that it is of each.
        head_dim: Dh.
        window: h.
        delay: m outside of training.
        training_delay: least and greatest m while training; None for those of ``default_delays``.
        shared_gates: one g and one λ for all heads of a memory.
        delay_draw: how often m is drawn, which the paper does not say: see ``draw_delays``.

    Source: seed 003; arXiv 2507.03285.
    """

    def __init__(
        self,
        *,
        hidden_size: int,
        num_heads: int,
        head_dim: int,
        window: int = 256,
        delay: int = 64,
        training_delay: Sequence[int] | None = None,
        delay_draw: str = "call",
        shared_gates: bool = False,
    ) -> None:
        memory = partial(
            AssociativeMemory,
            hidden_size=hidden_size,
            num_heads=num_heads,
            head_dim=head_dim,
            shared_gates=shared_gates,
        )
        between = training_delay or default_delays(window, delay)
        long = memory(delay=delay, training_delay=between, delay_draw=delay_draw)
        super().__init__({"short": memory(window=window), "long": long})


class MosaicV1(AssociativeMemory):
    """The memory of the first Memory Mosaics: one of all the past, fixed decay, fixed bandwidth.

    Source: arXiv 2405.06394; what v2 is compared with.
    """

    def __init__(self, *, hidden_size: int, num_heads: int, head_dim: int) -> None:
        super().__init__(
            hidden_size=hidden_size,
            num_heads=num_heads,
            head_dim=head_dim,
            gated=False,
            adaptive=False,
        )

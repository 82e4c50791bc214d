"""Memory Mosaics: memories of pairs with a short and a long reach."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from fourfold.layers.associative_memory import TRAINING_DELAY, AssociativeMemory
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
        training_delay: least and greatest m while training.
        delay_draw: "step" draws one m for a layer's call, "sequence" one for each sequence in it;
            the paper does not say.

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
        training_delay: Sequence[int] = TRAINING_DELAY,
        delay_draw: str = "step",
    ) -> None:
        memory = partial(
            AssociativeMemory, hidden_size=hidden_size, num_heads=num_heads, head_dim=head_dim
        )
        long = memory(delay=delay, training_delay=training_delay, delay_draw=delay_draw)
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

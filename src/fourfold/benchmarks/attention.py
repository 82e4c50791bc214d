"""Attention as a contestant: what a memory of fixed size is to be weighed against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fourfold.benchmarks.contestants import Contestant, Decoder, Prepared
from fourfold.benchmarks.inputs import Inputs
from fourfold.benchmarks.shapes import Shape

LONGEST = 4096
"""Tokens read at once."""


@dataclass(frozen=True)
class Attention(Contestant):
    """torch's scaled_dot_product_attention, causal: keys of size S, values of size D."""

    name: str = "attention (SDPA)"
    note: str = (
        "sizes of key and value differ, so that torch on a CPU takes its path of plain matrix "
        "products; decodes against a cache that is allocated beforehand and filled in place."
    )
    longest: int | None = LONGEST
    why_longest: str = f"quadratic in T: not asked to read more than {LONGEST:,} tokens."

    def prepare(self, inputs: Inputs, shape: Shape) -> Prepared:
        leaves = [inputs[name] for name in ("q", "s", "e")]

        def read() -> Tensor:
            q, k, v = (x.transpose(1, 2) for x in leaves)
            return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)

        return Prepared(read=read, leaves=leaves, dy=inputs["dy"])

    def decoder(
        self, tokens: Sequence[Inputs], state: Tensor | None, seen: int, room: int
    ) -> Decoder:
        return CacheDecoder(tokens, seen, room)


class CacheDecoder(Decoder):
    """Keeps the key and the value of every token."""

    def __init__(self, tokens: Sequence[Inputs], seen: int, room: int) -> None:
        heads_first = [
            {name: x[name].transpose(1, 2).contiguous() for name in ("q", "s", "e")} for x in tokens
        ]
        self.tokens = [(x["q"], x["s"], x["e"]) for x in heads_first]
        _, k, v = self.tokens[0]
        self.keys, self.values = (torch.randn_like(x).repeat(1, 1, seen + room, 1) for x in (k, v))
        self.seen, self.next = seen, 0

    @property
    def nbytes(self) -> int:
        kept = (x[:, :, : self.seen] for x in (self.keys, self.values))
        return sum(x.numel() * x.element_size() for x in kept)

    def step(self) -> None:
        q, k, v = self.tokens[self.next % len(self.tokens)]
        self.keys[:, :, self.seen : self.seen + 1] = k
        self.values[:, :, self.seen : self.seen + 1] = v
        self.seen, self.next = self.seen + 1, self.next + 1
        F.scaled_dot_product_attention(
            q, self.keys[:, :, : self.seen], self.values[:, :, : self.seen]
        )

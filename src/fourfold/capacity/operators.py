"""Untrained operators: ideal addresses and values, and exact algebra between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import normalize

from fourfold.ops import delta_rule
from fourfold.ops.transport import transport

Rule = Literal["delta", "linear", "transported"]
Addresses = Literal["orthogonal", "random", "similar"]


@dataclass(frozen=True)
class Written:
    """Addresses, and the values that are written there one after another.

    Attributes:
        source: (B, n, H, S), of unit length.
        proposal: (B, n, H, S), directions of transport, of unit length.
        values: (B, codebook, D), of unit length.
        chosen: (B, n), which value each item has.
    """

    source: Tensor
    proposal: Tensor
    values: Tensor
    chosen: Tensor

    def entities(self) -> Tensor:
        """(B, n, H, D/H)."""
        index = self.chosen[..., None].expand(-1, -1, self.values.shape[-1])
        return self.values.gather(1, index).unflatten(-1, (self.source.shape[2], -1))

    def take(self, items: slice | Tensor) -> Written:
        """Some of the items, in their order."""
        return Written(
            self.source[:, items], self.proposal[:, items], self.values, self.chosen[:, items]
        )

    def with_values(self, chosen: Tensor) -> Written:
        """The same items with other values."""
        return Written(self.source, self.proposal, self.values, chosen)


@dataclass(frozen=True)
class Space:
    """What addresses and values are drawn from.

    Attributes:
        address_dim: S.
        columns: D, of all heads together.
        heads: H, each with addresses of its own and D/H of the columns.
        codebook: values to choose from, random unit vectors.
        addresses: "orthogonal" (the same again from the S-th on), "random" on the unit sphere, or
            "similar", random about a common direction.
        similarity: cosine that two similar addresses have in the mean.
    """

    address_dim: int
    columns: int
    heads: int
    codebook: int
    addresses: Addresses
    similarity: float = 0.5

    def draw(
        self, draw: torch.Generator, count: int, items: int, *, different: bool = True
    ) -> Written:
        """B = ``count`` times n = ``items``.

        Args:
            different: no two items have the same value.
        """

        def directions(*shape: int) -> Tensor:
            return normalize(torch.randn(*shape, generator=draw, dtype=torch.float64), dim=-1)

        heads, size = self.heads, self.address_dim
        if self.addresses == "orthogonal":
            basis = torch.linalg.qr(directions(count, heads, size, size)).Q
            source = basis[:, :, torch.arange(items) % size].movedim(2, 1)
        else:
            source = directions(count, items, heads, size)
            if self.addresses == "similar":
                common = directions(count, 1, heads, size)
                source = source - common * (source * common).sum(-1, keepdim=True)
                near, far = self.similarity**0.5, (1 - self.similarity) ** 0.5
                source = near * common + far * normalize(source, dim=-1)
        proposal = directions(count, items, heads, size)
        values = directions(count, self.codebook, self.columns)
        if different:
            chosen = torch.rand(count, self.codebook, generator=draw).argsort(-1)[:, :items]
        else:
            chosen = torch.randint(self.codebook, (count, items), generator=draw)
        return Written(source, proposal, values, chosen)

    def most_at_once(self, items: int) -> int:
        """How many draws fit into some 64 MB."""
        heads, size = self.heads, self.address_dim
        return max(1, (1 << 22) // max(self.codebook * self.columns, (items + size) * heads * size))


@dataclass(frozen=True)
class Operator:
    """How items are written.

    Attributes:
        rule: "delta" writes where it reads (ATPM at ρ = λ = 0); "linear" only adds; "transported"
            is ATPM, which writes elsewhere than where it reads.
        rho, proposal: of "transported": ρ, and the length of its proposals.
    """

    rule: Rule
    rho: float = 0.0
    proposal: float = 0.0

    def write(self, items: Written, *, decay: float = 1.0, memory: Tensor | None = None) -> Tensor:
        """The state (B, H, S, D/H) after all items were written, with strength 1."""
        source = items.source
        strength = torch.ones(source.shape[:3], dtype=source.dtype)
        destination = source
        if self.rule == "transported":
            proposal = self.proposal * items.proposal
            destination = transport(s=source, b=proposal, rho=self.rho * strength)
        _, state = delta_rule(
            q=source,
            s=source,
            d=destination,
            e=items.entities(),
            log_alpha=strength * torch.tensor(decay, dtype=source.dtype).log(),
            erase=torch.zeros_like(strength) if self.rule == "linear" else strength,
            write=strength,
            initial_state=memory,
        )
        assert state is not None
        return state


@dataclass(frozen=True)
class Recalled:
    """What came back, of each draw (B,).

    Attributes:
        accuracy: share of the items whose value is the nearest to what was read, by the angle.
        error: mean ‖y − e‖² / ‖e‖².
    """

    accuracy: Tensor
    error: Tensor


def recall(memory: Tensor, items: Written) -> Recalled:
    """Read each item with its own address from a state (B, H, S, D/H)."""
    read = torch.einsum("bhsd,bnhs->bnhd", memory, items.source).flatten(-2)
    nearest = torch.einsum("bnd,bcd->bnc", read, items.values).argmax(-1)
    right = (nearest == items.chosen).double()
    # Values have unit length.
    error = (read - items.entities().flatten(-2)).square().sum(-1)
    return Recalled(right.mean(-1), error.mean(-1))


@dataclass(frozen=True)
class IdealMemory:
    """An operator with random addresses, as a yardstick for a trained one of its size.

    Attributes:
        rule, address_dim, columns, heads, codebook: as in ``Operator`` and ``Space``.
    """

    rule: Rule
    address_dim: int
    columns: int
    heads: int
    codebook: int

    def recalled(
        self,
        stored: int,
        *,
        further: int = 0,
        again: bool = False,
        asked: int | None = None,
        draws: int = 200,
        seed: int = 0,
    ) -> tuple[float, float]:
        """Share of items that are recalled, and its standard error. Items may have equal values.

        Args:
            stored: items that are written.
            further: writes after them: of new items or, ``again``, of those that are not asked, in
                turn, with other values.
            asked: the first so many are asked; None for all that are stored.
        """
        space = Space(self.address_dim, self.columns, self.heads, self.codebook, "random")
        asked = stored if asked is None else asked
        draw = torch.Generator().manual_seed(seed)
        count = stored if again else stored + further
        order, turns = torch.arange(count), torch.zeros(count, dtype=torch.long)
        if again:
            place, rest = torch.arange(further), stored - asked
            order = torch.cat([order, asked + place % rest])
            turns = torch.cat([turns, 1 + place // rest])
        shares = []
        for start in range(0, draws, most := space.most_at_once(count)):
            number = min(most, draws - start)
            drawn = space.draw(draw, number, count, different=False)
            # Each time an item is written it has another value.
            chosen = (drawn.chosen[:, order] + turns) % self.codebook
            memory = Operator(self.rule).write(drawn.take(order).with_values(chosen))
            shares.append(recall(memory, drawn.take(slice(asked))).accuracy)
        found = torch.cat(shares)
        return float(found.mean()), float(found.std() / draws**0.5)

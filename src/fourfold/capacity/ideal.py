"""What operators can hold when nothing has to be learned: ideal addresses, exact algebra."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor
from torch.nn.functional import normalize

from fourfold.capacity.theory import expected_error
from fourfold.ops import delta_rule
from fourfold.ops.transport import transport
from fourfold.settings import Section

Rule = Literal["delta", "linear", "transported"]
Addresses = Literal["orthogonal", "random", "similar"]
Row = dict[str, Any]


@dataclass(frozen=True)
class Drawn:
    """Addresses and values.

    Attributes:
        source: (B, n, H, S), of unit length.
        proposal: (B, n, H, S), of transports.
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


@dataclass(frozen=True)
class Recalled:
    """Share of items whose value is the nearest to what was read, and mean ‖y − e‖² / ‖e‖²."""

    accuracy: float
    error: float


def recalled(memory: Tensor, drawn: Drawn, items: slice = slice(None)) -> Recalled:
    """What a state (B, H, S, D/H) gives back for some of the items, read with their addresses."""
    read = torch.einsum("bhsd,bnhs->bnhd", memory, drawn.source[:, items]).flatten(-2)
    wanted = drawn.entities()[:, items].flatten(-2)
    nearest = torch.einsum("bnd,bcd->bnc", read, drawn.values).argmax(-1)
    right = nearest == drawn.chosen[:, items]
    # Values have unit length.
    error = (read - wanted).square().sum(-1)
    return Recalled(float(right.double().mean()), float(error.mean()))


class CapacityStudy(Section):
    """Items stored against what comes back.

    Every item has an address of unit length and a value, one of a codebook of random unit vectors.
    It is written with strength 1 and read with its own address behind the last write; it counts as
    recalled if its value is the nearest of the codebook, by the angle.

    Attributes:
        rules: "delta" writes where it reads (ATPM at ρ = λ = 0); "linear" only adds; "transported"
            is ATPM with a random proposal, which writes elsewhere than where it reads.
        address_dims: S.
        columns: D, of all heads together.
        heads: H, each with addresses of its own and D/H of the columns.
        items: how many are stored.
        addresses: "orthogonal" (the same again from the S-th on), "random" on the unit sphere, or
            "similar", random about a common direction.
        similarity: cosine that two similar addresses have in the mean.
        decays: α of every write.
        codebook: values to choose from.
        rho, proposal: ρ of "transported", and the length of its proposals.
        overwritten: share of the items that are written again with other values, to see what that
            does to the others.
        draws: repetitions, of which the mean is taken.
        seed: of all that is drawn.
    """

    rules: tuple[Rule, ...] = ("delta", "linear", "transported")
    address_dims: tuple[int, ...] = Field(default=(16, 32, 64), min_length=1)
    columns: int = Field(default=32, ge=1)
    heads: tuple[int, ...] = Field(default=(1,), min_length=1)
    items: tuple[int, ...] = Field(default=(1, 2, 4, 8, 16, 32, 64, 128, 256), min_length=1)
    addresses: tuple[Addresses, ...] = ("orthogonal", "random", "similar")
    similarity: float = Field(default=0.5, ge=0, lt=1)
    decays: tuple[float, ...] = Field(default=(1.0, 0.99), min_length=1)
    codebook: int = Field(default=256, ge=2)
    rho: float = Field(default=0.5, ge=0, le=1)
    proposal: float = Field(default=0.5, ge=0, lt=1)
    overwritten: tuple[float, ...] = (0.25, 0.5)
    draws: int = Field(default=20, ge=1)
    seed: int = 0

    @model_validator(mode="after")
    def _heads_divide(self) -> CapacityStudy:
        if odd := [heads for heads in self.heads if heads < 1 or self.columns % heads]:
            raise ValueError(f"heads must divide the {self.columns} columns; got {odd[0]}.")
        if min(*self.items, *self.address_dims) < 1:
            raise ValueError("items and address_dims must be 1 or more.")
        if not all(0 < decay <= 1 for decay in self.decays):
            raise ValueError(f"decays must be above 0 and at most 1; got {self.decays}.")
        return self

    def rows(self) -> Iterator[Row]:
        """Accuracy and interference under every condition, and what theory expects."""
        conditions = product(
            self.rules, self.address_dims, self.heads, self.addresses, self.decays, self.items
        )
        for rule, size, heads, addresses, decay, items in conditions:
            drawn = self._draw(size, heads, addresses, items)
            memory = self._written(rule, drawn, decay, None)
            found = recalled(memory, drawn)
            yield {
                "rule": rule,
                "address_dim": size,
                "heads": heads,
                "addresses": addresses,
                "decay": decay,
                "items": items,
                "accuracy": found.accuracy,
                "error": found.error,
                "expected_error": expected_error(
                    rule, address_dim=size, items=items, addresses=addresses, decay=decay
                ),
            }

    def neighbours(self) -> Iterator[Row]:
        """What writing a share of the items again does to the others, which nothing names."""
        conditions = product(
            self.rules, self.address_dims, self.addresses, self.items, self.overwritten
        )
        for rule, size, addresses, items, share in conditions:
            again = round(share * items)
            if (addresses == "orthogonal" and items > size) or not 0 < again < items:
                continue
            drawn = self._draw(size, self.heads[0], addresses, items)
            before = self._written(rule, drawn, 1.0, None)
            after = self._rewritten(rule, drawn, before, again)
            others = slice(again, None)
            was, now = (recalled(memory, drawn, others) for memory in (before, after))
            yield {
                "rule": rule,
                "address_dim": size,
                "addresses": addresses,
                "items": items,
                "overwritten": again,
                "share": share,
                "accuracy_before": was.accuracy,
                "accuracy_after": now.accuracy,
                "error_before": was.error,
                "error_after": now.error,
            }

    def _draw(self, size: int, heads: int, addresses: str, items: int) -> Drawn:
        draw = torch.Generator().manual_seed(self.seed)

        def gaussian(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=draw, dtype=torch.float64)

        shape = (self.draws, items, heads, size)
        if addresses == "orthogonal":
            basis = torch.linalg.qr(gaussian(self.draws, heads, size, size)).Q
            places = torch.arange(items) % size
            source = basis[:, :, places].movedim(2, 1)
        else:
            source = normalize(gaussian(*shape), dim=-1)
            if addresses == "similar":
                common = normalize(gaussian(self.draws, 1, heads, size), dim=-1)
                source = source - common * (source * common).sum(-1, keepdim=True)
                source = normalize(source, dim=-1)
                near, far = self.similarity**0.5, (1 - self.similarity) ** 0.5
                source = near * common + far * source
        values = normalize(gaussian(self.draws, self.codebook, self.columns), dim=-1)
        chosen = torch.randint(self.codebook, (self.draws, items), generator=draw)
        proposal = self.proposal * normalize(gaussian(*shape), dim=-1)
        return Drawn(source, proposal, values, chosen)

    def _written(self, rule: str, drawn: Drawn, decay: float, memory: Tensor | None) -> Tensor:
        """The state after all items were written."""
        source = drawn.source
        strength = torch.ones(source.shape[:3], dtype=source.dtype)
        destination = source
        if rule == "transported":
            destination = transport(s=source, b=drawn.proposal, rho=self.rho * strength)
        _, state = delta_rule(
            q=source,
            s=source,
            d=destination,
            e=drawn.entities(),
            log_alpha=strength * torch.tensor(decay, dtype=source.dtype).log(),
            erase=torch.zeros_like(strength) if rule == "linear" else strength,
            write=strength,
            initial_state=memory,
        )
        assert state is not None
        return state

    def _rewritten(self, rule: str, drawn: Drawn, memory: Tensor, count: int) -> Tensor:
        """The state after the first ``count`` items got the values of others."""
        moved = drawn.chosen[:, :count].roll(1, 1) if count > 1 else (drawn.chosen[:, :1] + 1)
        again = replace(
            drawn,
            source=drawn.source[:, :count],
            proposal=drawn.proposal[:, :count],
            chosen=moved % self.codebook,
        )
        return self._written(rule, again, 1.0, memory)

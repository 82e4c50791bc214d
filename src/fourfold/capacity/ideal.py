"""What operators can hold when nothing has to be learned."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, TypeVar

import torch
from pydantic import Field, model_validator
from torch import Tensor

from fourfold.capacity.operators import Addresses, Operator, Rule, Space, Written, recall
from fourfold.capacity.theory import expected_accuracy, expected_error, weights
from fourfold.settings import Section

Row = dict[str, Any]
Way = TypeVar("Way")


class Transport(Section):
    """How far from its source "transported" writes, in a random direction.

    Attributes:
        rho: ρ.
        proposal: ‖b‖; the angle between source and destination is at most arctan(ρ ‖b‖).
    """

    rho: float = Field(default=0.5, ge=0, le=1)
    proposal: float = Field(default=0.5, ge=0, lt=1)


class CapacityStudy(Section):
    """Items stored against what comes back.

    Every item has an address of unit length and a value, one of a codebook of random unit vectors
    that no other item has. It is written with strength 1 and read with its own address behind the
    last write; it counts as recalled if its value is the nearest of the codebook, by the angle.

    Rules, sizes and kinds of addresses, decays and items are all combined, with the first of
    columns, heads and similarity. The others of these three are measured one at a time, under the
    first size of addresses and the first decay.

    Attributes:
        rules: "delta" writes where it reads (ATPM at ρ = λ = 0); "linear" only adds; "transported"
            is ATPM with a random proposal, which writes elsewhere than where it reads.
        address_dims: S.
        columns: D, of all heads together.
        heads: H, each with addresses of its own and D/H of the columns.
        items: how many are stored, at most as many as the codebook has values.
        addresses: "orthogonal" (the same again from the S-th on), "random" on the unit sphere, or
            "similar", random about a common direction.
        similarity: cosine that two similar addresses have in the mean.
        decays: α of every write.
        codebook: values to choose from.
        transports: of "transported", each a rule of its own.
        overwritten: share of the items that are written again with other values, to see what that
            does to the others.
        draws: repetitions at least, of which the mean and its standard error are taken.
        reads: items read at least, over all repetitions: few items are drawn more often.
        seed: of all that is drawn.
    """

    rules: tuple[Rule, ...] = ("delta", "linear", "transported")
    address_dims: tuple[int, ...] = Field(default=(16, 32, 64), min_length=1)
    columns: tuple[int, ...] = Field(default=(64,), min_length=1)
    heads: tuple[int, ...] = Field(default=(1,), min_length=1)
    items: tuple[int, ...] = Field(default=(1, 2, 4, 8, 16, 32, 64, 128, 256), min_length=1)
    addresses: tuple[Addresses, ...] = ("orthogonal", "random", "similar")
    similarity: tuple[float, ...] = Field(default=(0.5,), min_length=1)
    decays: tuple[float, ...] = Field(default=(1.0, 0.99), min_length=1)
    codebook: int = Field(default=256, ge=2)
    transports: tuple[Transport, ...] = Field(
        default=(Transport(), Transport(rho=1.0, proposal=0.999)), min_length=1
    )
    overwritten: tuple[float, ...] = (0.25, 0.5)
    draws: int = Field(default=20, ge=2)
    reads: int = Field(default=1000, ge=1)
    seed: int = 0

    @model_validator(mode="after")
    def _can_be_drawn(self) -> CapacityStudy:
        for columns, heads in [*product(self.columns, self.heads[:1]), *self._more_heads()]:
            if heads < 1 or columns % heads:
                raise ValueError(f"heads must divide the {columns} columns; got {heads}.")
        if min(*self.items, *self.address_dims) < 1:
            raise ValueError("items and address_dims must be 1 or more.")
        if min(self.columns) < 2:
            raise ValueError(f"columns must be 2 or more; got {min(self.columns)}.")
        if max(self.items) > self.codebook:
            raise ValueError(
                f"items must be at most the {self.codebook} values of the codebook, for each has "
                f"its own; got {max(self.items)}."
            )
        if not all(0 < decay <= 1 for decay in self.decays):
            raise ValueError(f"decays must be above 0 and at most 1; got {self.decays}.")
        if not all(0 <= similarity < 1 for similarity in self.similarity):
            raise ValueError(f"similarity must be from 0 to below 1; got {self.similarity}.")
        if "similar" in self.addresses and min(self.address_dims) < 2:
            raise ValueError("similar addresses need address_dims of 2 or more.")
        return self

    def rows(self) -> Iterator[Row]:
        """Accuracy and interference under every condition, and what theory expects."""
        for space, decays in self._conditions():
            for items in self.items:
                ways = list(product(self._operators(), decays))

                def measure(drawn: Written, way: tuple[Operator, float]) -> dict[str, Tensor]:
                    operator, decay = way
                    found = recall(operator.write(drawn, decay=decay), drawn)
                    return {"accuracy": found.accuracy, "error": found.error}

                measured = self._measured(space, items, items, ways, measure)
                for (operator, decay), found in zip(ways, measured, strict=True):
                    yield {
                        **_described(operator, space),
                        "decay": decay,
                        "items": items,
                        **found,
                        **_expected(operator, space, decay, items),
                    }

    def neighbours(self) -> Iterator[Row]:
        """What writing a share of the items again does to the others, which nothing names."""
        for size, kind, items in product(self.address_dims, self.addresses, self.items):
            space = self._space(size, kind)
            for share in self.overwritten:
                again = round(share * items)
                if (kind == "orthogonal" and items > size) or not 0 < again < items:
                    continue

                def measure(
                    drawn: Written, operator: Operator, again: int = again
                ) -> dict[str, Tensor]:
                    before = operator.write(drawn)
                    after = operator.write(self._changed(drawn, again), memory=before)
                    others = drawn.take(slice(again, None))
                    was, now = (recall(memory, others) for memory in (before, after))
                    return {
                        "accuracy_before": was.accuracy,
                        "accuracy_after": now.accuracy,
                        "lost": was.accuracy - now.accuracy,
                        "error_before": was.error,
                        "error_after": now.error,
                    }

                operators = list(self._operators())
                measured = self._measured(space, items, items - again, operators, measure)
                for operator, found in zip(operators, measured, strict=True):
                    yield {
                        **_described(operator, space),
                        "items": items,
                        "overwritten": again,
                        "share": share,
                        **found,
                    }

    def _operators(self) -> Iterator[Operator]:
        for rule in self.rules:
            if rule == "transported":
                for transport in self.transports:
                    yield Operator(rule, transport.rho, transport.proposal)
            else:
                yield Operator(rule)

    def _conditions(self) -> Iterator[tuple[Space, tuple[float, ...]]]:
        """Spaces, and the decays that are measured in each."""
        for size, kind in product(self.address_dims, self.addresses):
            yield self._space(size, kind), self.decays
        for kind in self.addresses:
            first = self._space(self.address_dims[0], kind)
            others = [replace(first, columns=columns) for columns in self.columns[1:]]
            others += [replace(first, heads=heads) for _, heads in self._more_heads()]
            if kind == "similar":
                others += [replace(first, similarity=cosine) for cosine in self.similarity[1:]]
            for space in others:
                yield space, self.decays[:1]

    def _more_heads(self) -> Iterator[tuple[int, int]]:
        for heads in self.heads[1:]:
            yield self.columns[0], heads

    def _space(self, size: int, kind: Addresses) -> Space:
        return Space(size, self.columns[0], self.heads[0], self.codebook, kind, self.similarity[0])

    def _changed(self, drawn: Written, count: int) -> Written:
        """The first ``count`` items with the values of others."""
        first = drawn.take(slice(count))
        moved = first.chosen.roll(1, 1) if count > 1 else first.chosen + 1
        return first.with_values(moved % self.codebook)

    def _measured(
        self,
        space: Space,
        items: int,
        read: int,
        ways: Sequence[Way],
        measure: Callable[[Written, Way], dict[str, Tensor]],
    ) -> list[Row]:
        """Of each way to write the same draws, means over them and their standard errors."""
        draw = torch.Generator().manual_seed(self.seed)
        draws = max(self.draws, -(-self.reads // read))
        found: list[dict[str, list[Tensor]]] = [{} for _ in ways]
        for start in range(0, draws, most := space.most_at_once(items)):
            drawn = space.draw(draw, min(most, draws - start), items)
            for way, values in zip(ways, found, strict=True):
                for name, value in measure(drawn, way).items():
                    values.setdefault(name, []).append(value)
        return [{"draws": draws, **_summary(values)} for values in found]


def _summary(found: dict[str, list[Tensor]]) -> Row:
    row: Row = {}
    for name, parts in found.items():
        values = torch.cat(parts)
        row[name] = float(values.mean())
        row[f"{name}_se"] = float(values.std() / len(values) ** 0.5)
    return row


def _expected(operator: Operator, space: Space, decay: float, items: int) -> Row:
    known = weights(
        operator.rule,
        address_dim=space.address_dim,
        items=items,
        addresses=space.addresses,
        decay=decay,
        similarity=space.similarity,
        rho=operator.rho,
        proposal=operator.proposal,
    )
    accuracy = expected_accuracy(
        known, columns=space.columns, heads=space.heads, codebook=space.codebook
    )
    return {
        "expected_accuracy": float(accuracy.mean()),
        "expected_error": expected_error(known),
    }


def _described(operator: Operator, space: Space) -> Row:
    moved = operator.rule == "transported"
    return {
        "rule": operator.rule,
        "rho": operator.rho if moved else None,
        "proposal": operator.proposal if moved else None,
        "address_dim": space.address_dim,
        "columns": space.columns,
        "heads": space.heads,
        "addresses": space.addresses,
        "similarity": space.similarity if space.addresses == "similar" else None,
    }

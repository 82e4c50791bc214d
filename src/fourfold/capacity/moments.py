"""How strongly each stored item comes back at each address: exact first and second moments.

What is read with the address of item i is a sum of all values, y_i = Σ_j w_ij e_j. Values are
independent of each other and of the addresses, so the moments of the weights w say what to expect.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Weights:
    """Moments of w, each (n, n): the address that is asked, then the item whose value comes.

    Attributes:
        mean: E w.
        square: E w².
    """

    mean: Numbers
    square: Numbers


@dataclass(frozen=True)
class Writes:
    """How items are written: E ← α E + d (e − Ω α Eᵀ s)ᵀ with Ω = 1, or 0 if nothing is erased.

    Attributes:
        erases: whether Ω = 1.
        decay: α.
        spread: E‖ρ b‖² / S of proposals b in a uniformly random direction, by which d differs from
            s: d = s + ρ (b − s sᵀb). 0 without transport.
    """

    erases: bool
    decay: float
    spread: float = 0.0


def orthogonal(writes: Writes, *, address_dim: int, items: int) -> Weights:
    """Of S orthogonal addresses, taken in turn.

    A write at one address turns what stands at another by c = ρ sᵀb alone, whose mean is 0 and
    whose square has the mean ``writes.spread``.
    """
    places = np.arange(items) % address_dim
    mean, square = np.zeros((address_dim, items)), np.zeros((address_dim, items))
    for item, place in enumerate(places):
        mean *= writes.decay
        square *= writes.decay**2
        if writes.erases:
            square += writes.spread * square[place]
            mean[place], square[place] = 0.0, 0.0
            square[:, item] = writes.spread
        mean[place, item] = square[place, item] = 1.0
    return Weights(mean[places], square[places])


def random(
    writes: Writes, *, address_dim: int, items: int, similarity: float | None = None
) -> Weights:
    """Of independent addresses, uniform on the unit sphere or, with ``similarity``, around a common
    direction m: s = √similarity m + √(1 − similarity) u, with u uniform on the sphere orthogonal
    to m.
    """
    ages = np.arange(items)[::-1]
    own, late, early = _tables(writes, address_dim, items, similarity)
    asked, stored = np.indices((items, items))
    moments = []
    for which in range(2):
        found = late[which][ages[stored]]
        before = stored < asked
        found[before] = early[which][ages[asked[before]], (asked - stored)[before]]
        np.fill_diagonal(found, own[which][ages])
        moments.append(found)
    return Weights(*moments)


@lru_cache(maxsize=256)
def _tables(writes: Writes, address_dim: int, items: int, similarity: float | None) -> Any:
    """Moments by age, the writes since: of an item at its own address and at that of an item that
    was written before it; and, by the age of the latter and the writes between, at that of an item
    that was written after it."""
    law = _Law(writes, address_dim, similarity)
    return law.tables(items) if writes.erases else law.added(items)


@dataclass
class _Pair:
    """Moments of a vector z, such as the coefficients of one value in the state, as far as the
    address s = a m + b u of one item sees them.

    Attributes:
        along, across: E mᵀz and E uᵀz.
        common: E (mᵀz)².
        mixed: E mᵀz zᵀu.
        single: E (uᵀz)².
        rest: E‖z − m mᵀz‖².
    """

    along: Any
    across: Any
    common: Any
    mixed: Any
    single: Any
    rest: Any


class _Law:
    """What a write at an independent address does to a vector on the average.

    With P = I − s sᵀ, and over proposals, E (I − d sᵀ) M (I − s dᵀ) = P M P + g (sᵀMs) P, where
    g is ``Writes.spread``; over s it takes E u uᵀ = Q / k and
    E u uᵀ U u uᵀ = (2 U + tr(U) Q) / (k (k + 2)), where Q projects on the k dimensions of u.
    """

    def __init__(self, writes: Writes, address_dim: int, similarity: float | None) -> None:
        self.erases, self.decay, self.spread = writes.erases, writes.decay, writes.spread
        # Without a common direction u is the whole address.
        self.has_common = 0 if similarity is None else 1
        self.near = similarity or 0.0
        self.far = 1 - self.near
        self.size = address_dim - self.has_common

    def written(self, *, own: bool) -> _Pair:
        """A destination: of the item that asks, or of another."""
        near, far, size, spread = self.near, self.far, self.size, self.spread
        slope = (near * far) ** 0.5
        single = far + spread * near if own else far / size + spread * (1 - far / size)
        return _Pair(
            along=near**0.5,
            across=far**0.5 if own else 0.0,
            common=near + spread * (self.has_common - near),
            mixed=(1 - spread) * slope if own else 0.0,
            single=single,
            rest=far + spread * (size - far),
        )

    def after(self, z: _Pair) -> _Pair:
        """z behind a write at another address."""
        near, far, size, spread = self.near, self.far, self.size, self.spread
        # E s sᵀMs sᵀ, in the parts of a pair.
        common = near**2 * z.common + near * far * z.rest / size
        mixed = 2 * near * far * z.mixed / size
        single = near * far * z.common / size + far**2 * (2 * z.single + z.rest) / (
            size * (size + 2)
        )
        rest = near * far * z.common + far**2 * z.rest / size
        met = common + rest
        keep = self.decay**2
        return _Pair(
            along=self.decay * z.along * (1 - near),
            across=self.decay * z.across * (1 - far / size),
            common=keep
            * (z.common * (1 - 2 * near) + common + spread * (self.has_common * met - common)),
            mixed=keep * (z.mixed * (1 - near - far / size) + (1 - spread) * mixed),
            single=keep * (z.single * (1 - 2 * far / size) + single + spread * (met - single)),
            rest=keep * (z.rest * (1 - 2 * far / size) + rest + spread * (size * met - rest)),
        )

    def asked(self, z: _Pair) -> _Pair:
        """z, which knows nothing of the item that asks, behind the write of that item."""
        near, far, size, spread = self.near, self.far, self.size, self.spread
        slope = (near * far) ** 0.5
        met = near * z.common + far * z.rest / size
        left = far * z.common + near * z.rest / size + spread * met
        others = z.rest * (1 - 1 / size) + spread * met * (size - 1)
        keep = self.decay**2
        return _Pair(
            along=self.decay * far * z.along,
            across=-self.decay * slope * z.along,
            common=keep * far * left * self.has_common,
            mixed=-keep * slope * left,
            single=keep * near * left,
            rest=keep * (near * left + others),
        )

    def read(self, z: _Pair) -> tuple[Any, Any]:
        """E sᵀz and E (sᵀz)²."""
        near, far = self.near, self.far
        slope = (near * far) ** 0.5
        mean = near**0.5 * z.along + far**0.5 * z.across
        return mean, near * z.common + 2 * slope * z.mixed + far * z.single

    def _ageing(self, z: _Pair, items: int) -> Iterator[_Pair]:
        for _ in range(items):
            yield z
            z = self.after(z)

    def tables(self, items: int) -> tuple[Any, Any, Any]:
        own = [self.read(z) for z in self._ageing(self.written(own=True), items)]
        others = list(self._ageing(self.written(own=False), items))
        late = [self.read(z) for z in others]
        # Between the two writes there are none, one, two, …: one column for each.
        between = _Pair(*(np.array([0.0, *part[:-1]]) for part in _columns(others)))
        early = [self.read(z) for z in self._ageing(self.asked(between), items)]
        own_, late_, early_ = (np.array(list(zip(*x, strict=True))) for x in (own, late, early))
        return own_, late_, early_

    def added(self, items: int) -> tuple[Any, Any, Any]:
        """The same where nothing is erased: an item is there with α^age, times the cosine."""
        faded = self.decay ** np.arange(items)
        cosine, square = self.near, self.near**2 + self.far**2 / self.size
        own, late = (faded, faded**2), (cosine * faded, square * faded**2)
        ages = np.add.outer(np.arange(items), np.arange(items))
        early = (cosine * self.decay**ages, square * self.decay ** (2.0 * ages))
        return np.array(own), np.array(late), np.array(early)


def _columns(pairs: list[_Pair]) -> Iterator[list[float]]:
    for name in _Pair.__dataclass_fields__:
        yield [getattr(pair, name) for pair in pairs]

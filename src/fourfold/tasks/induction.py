"""Read: what followed last time, the smallest test of a memory of a sequence."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from pydantic import Field, model_validator

from fourfold.tasks.example import Example
from fourfold.tasks.task import Loads, Split
from fourfold.tasks.yardstick import Yardstick


class Induction(Yardstick):
    """Different symbols, then some of them again in another order, each to be answered with what
    followed it the first time. The load is the number of different symbols.

    ``s5 s1 s9 s2 s1 s5``, where ``s9`` is to be named after the second ``s1`` and ``s1`` after the
    second ``s5``; neither is read.

    [A] [B] … [A] → [B], the induction of arXiv 2209.11895: attention needs two layers for it, one
    to bring [A] to the place of [B] and one to find it there. Where a symbol stands says nothing:
    the number of symbols and the order in which they come again are drawn.

    Attributes:
        loads: numbers of different symbols.
    """

    name = "induction"
    asks_for = "Read, what followed"
    load_is = "symbols"
    vocabulary_size: int = Field(default=64, ge=2)
    loads: Loads = Loads(iid=(4, 16), ood=(32, 32), stress=(64, 64))

    @model_validator(mode="after")
    def _symbols_suffice(self) -> Induction:
        if self.loads.greatest > self.vocabulary_size or self.loads.iid[0] < 2:
            raise ValueError(
                f"induction needs loads from 2 to the {self.vocabulary_size} symbols of its "
                f"vocabulary_size; got {self.loads.iid[0]} to {self.loads.greatest}."
            )
        return self

    @property
    def families(self) -> dict[str, range]:
        return {"s{}": range(self.vocabulary_size)}

    def draw(self, random: Random, split: Split) -> Example:
        load = random.randint(*self.loads.of(split))
        first = random.sample(range(self.vocabulary_size), load)
        followed = dict(pairwise(first))
        again = random.sample(first[:-1], random.randint(1, load - 1))
        probes = tuple((load + place, followed[symbol]) for place, symbol in enumerate(again))
        return Example((*first, *again), load, probes=probes)

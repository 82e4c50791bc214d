"""Persistent knowledge: what the world holds, asked beside what documents tell."""

from __future__ import annotations

from functools import cached_property
from random import Random

from pydantic import Field

from fourfold.tasks.bindings import BindingTask, Value, written
from fourfold.tasks.example import Example
from fourfold.tasks.task import Loads, up_to
from fourfold.tasks.vocabulary import Vocabulary


class ClosedBook(BindingTask):
    """Pairs to read, then questions about these and about others. The load is the pairs.

    ``k5 v1 v7 k9 v3``, then ``? k5`` is answered ``v1 v7 .``, and ``? k2``, which is read
    nowhere, ``v4 .``, as in every other example.

    What training leaves in the weights beside what a memory holds: seed 003, section 3.2.

    Attributes:
        world: keys whose values never change, the first of their family; the others are read.
    """

    name = "closed_book"
    asks_for = "Know, or read"
    load_is = "pairs"
    loads: Loads = up_to(8)
    vocabulary: Vocabulary = Vocabulary(keys=64)
    world: int = Field(default=32, ge=1)

    def needs(self, load: int) -> dict[str, int]:
        return {"key": self.world + load, "value": 2}

    def example(self, random: Random, load: int) -> Example:
        keys = self.vocabulary.family("key")
        told = self.bind(random, random.sample(keys[self.world :], load))
        count = min(load, self.questions)
        asked = [self.about(key, told[key], "told") for key in random.sample(list(told), count)]
        known = random.sample(list(self._world), min(self.world, self.questions))
        asked += [self.about(key, self._world[key], "known") for key in known]
        random.shuffle(asked)
        return Example(tuple(written(told)), load, tuple(asked))

    @cached_property
    def _world(self) -> dict[int, Value]:
        keys = self.vocabulary.family("key")[: self.world]
        return self.bind(Random("closed_book world"), keys)

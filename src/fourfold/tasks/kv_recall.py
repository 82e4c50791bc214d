"""Read: the value of a key."""

from __future__ import annotations

from random import Random

from fourfold.tasks.bindings import BindingTask, written
from fourfold.tasks.example import Example
from fourfold.tasks.task import Loads, up_to


class KeyValueRecall(BindingTask):
    """Pairs of a key and a value, then questions for the value of a key. The load is the pairs.

    ``k5 v1 v7 k2 v3``, then ``? k5`` is answered ``v1 v7 .``
    """

    name = "kv_recall"
    asks_for = "Read"
    load_is = "pairs"
    loads: Loads = up_to(8)

    def needs(self, load: int) -> dict[str, int]:
        return {"key": load, "value": 2}

    def example(self, random: Random, load: int) -> Example:
        pairs = self.bind(random, self.sample(random, "key", load))
        asked = random.sample(list(pairs), min(load, self.questions))
        questions = tuple(self.about(key, pairs[key], "plain") for key in asked)
        return Example(tuple(written(pairs)), load, questions)

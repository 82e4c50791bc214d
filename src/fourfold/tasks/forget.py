"""Rewrite, to nothing: bindings are deleted."""

from __future__ import annotations

from random import Random

from fourfold.tasks.bindings import BindingTask, written
from fourfold.tasks.example import Example
from fourfold.tasks.task import Loads, up_to


class Forget(BindingTask):
    """Pairs, about half of which are then deleted. The load is the pairs.

    ``k5 v1 v7 k2 v3 forget k5``, then ``? k5`` is answered ``nothing .``
    """

    name = "forget"
    asks_for = "Rewrite, to nothing"
    load_is = "pairs"
    loads: Loads = up_to(8)

    def needs(self, load: int) -> dict[str, int]:
        return {"key": load, "value": 2}

    def example(self, random: Random, load: int) -> Example:
        pairs = self.bind(random, self.sample(random, "key", load))
        context = written(pairs)
        deleted = [key for key in pairs if random.random() < 0.5]
        random.shuffle(deleted)
        context += [token for key in deleted for token in (self.sign("forget"), key)]
        questions = tuple(
            self.about(key, None, "empty", (pairs[key],))
            if key in deleted
            else self.about(key, pairs[key], "untouched")
            for key in random.sample(list(pairs), min(load, self.questions))
        )
        return Example(tuple(context), load, questions)

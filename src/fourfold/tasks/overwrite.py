"""Rewrite: a key's value is replaced."""

from __future__ import annotations

from random import Random

from pydantic import Field

from fourfold.tasks.bindings import BindingTask, written
from fourfold.tasks.example import Example
from fourfold.tasks.task import Loads, up_to


class Overwrite(BindingTask):
    """Pairs, then new values for some of the keys, again and again. The load is the replacements.

    ``k5 v1 k2 v3 v8 k5 v7 k5 v4``, then ``? k5`` is answered ``v4 .``; ``v1`` and ``v7`` are
    stale.

    Attributes:
        keys: how many are bound at first.
    """

    name = "overwrite"
    asks_for = "Rewrite"
    load_is = "replacements"
    loads: Loads = up_to(8)
    keys: int = Field(default=6, ge=1)

    def needs(self, load: int) -> dict[str, int]:
        return {"key": self.keys, "value": 2}

    def example(self, random: Random, load: int) -> Example:
        pairs = self.bind(random, self.sample(random, "key", self.keys))
        context = written(pairs)
        # All values that each key has had, the current one last.
        held = {key: [value] for key, value in pairs.items()}
        for _ in range(load):
            key = random.choice(list(held))
            value = self.new_value(random, (held[key][-1],))
            held[key].append(value)
            context += [key, *value]
        questions = tuple(
            self.about(
                key,
                held[key][-1],
                "current" if len(held[key]) > 1 else "untouched",
                tuple(sorted(set(held[key]) - {held[key][-1]})),
            )
            for key in random.sample(list(held), min(self.keys, self.questions))
        )
        return Example(tuple(context), load, questions)

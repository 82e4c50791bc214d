"""Revise: parts of an entity change, the others stay."""

from __future__ import annotations

from random import Random

from pydantic import Field

from fourfold.tasks.example import Example, Part, Question
from fourfold.tasks.task import Loads, SymbolTask, up_to


class Revise(SymbolTask):
    """Entities with several attributes, then updates of single ones. The load is the updates.

    ``k5 v1 v7 v3 k2 v8 v6 v2 k5 a1 v9``, then ``? k5`` is answered ``v1 v9 v3 .``

    Attributes:
        entities: how many there are.
        attributes: of each entity, read and answered in their order.
    """

    name = "revise"
    asks_for = "Revise"
    load_is = "updates"
    loads: Loads = up_to(8)
    entities: int = Field(default=4, ge=1)
    attributes: int = Field(default=3, ge=1)

    def needs(self, load: int) -> dict[str, int]:
        return {"key": self.entities, "value": 2, "attribute": self.attributes}

    def example(self, random: Random, load: int) -> Example:
        keys = self.sample(random, "key", self.entities)
        # All values that each attribute has had, the current one last.
        held = {key: [[v] for v in self.symbols(random, "value", self.attributes)] for key in keys}
        context = [token for key in keys for token in (key, *(past[0] for past in held[key]))]
        signs = self.vocabulary.family("attribute")
        for _ in range(load):
            key, place = random.choice(keys), random.randrange(self.attributes)
            past = held[key][place]
            value = past[-1]
            while value == past[-1]:
                (value,) = self.symbols(random, "value", 1)
            past.append(value)
            context += [key, signs[place], value]
        random.shuffle(keys)
        questions = tuple(self._about(key, held[key]) for key in keys)
        return Example(tuple(context), load, questions)

    def _about(self, key: int, attributes: list[list[int]]) -> Question:
        parts = (
            Part(
                (past[-1],),
                "current" if len(past) > 1 else "untouched",
                tuple((value,) for value in sorted(set(past) - {past[-1]})),
            )
            for past in attributes
        )
        prompt = (self.sign("ask"), key)
        return Question(prompt, tuple(parts), self.sign("end"))

"""In-context learning: what a class is called, from examples of it."""

from __future__ import annotations

from functools import cached_property
from random import Random

from pydantic import Field, model_validator

from fourfold.tasks.example import Example, Part, Question
from fourfold.tasks.task import Loads, SymbolTask, up_to

Class = tuple[tuple[int, ...], int]
"""The features that are typical of a class, and its label."""


class LabelMap(SymbolTask):
    """Labelled shots, then some to be labelled. The load is the shots of each class.

    ``k1 k7 k4 = v3 k2 k2 k9 = v8 k1 k5 k4 = v3``, then ``? k1 k7 k0 =`` is answered ``v3 .``

    A shot has the features of its class, each replaced by any symbol with probability ``blur``: one
    may mislead, several tell. The classes of the world and their labels never
    change, so that training can leave them in the weights; anonymous classes are drawn anew for
    every example, with labels that only its shots can tell.

    Real and anonymous labels as in seed 003, section 3.4 (Banking77, GoEmotions), in symbols.

    Attributes:
        classes: in each example.
        world: how many classes the world holds.
        features: of each class.
        blur: probability that a feature is replaced.
        anonymous: probability that an example's classes are anonymous.
        questions: shots to be labelled.
    """

    name = "label_map"
    asks_for = "Learn labels from shots"
    load_is = "shots a class"
    loads: Loads = up_to(4)
    classes: int = Field(default=4, ge=2)
    world: int = Field(default=16, ge=2)
    features: int = Field(default=4, ge=1)
    blur: float = Field(default=0.3, ge=0, le=1)
    anonymous: float = Field(default=0.5, ge=0, le=1)
    questions: int = Field(default=8, ge=1)

    def needs(self, load: int) -> dict[str, int]:
        return {"value": max(self.classes, self.world)}

    @model_validator(mode="after")
    def _classes_differ(self) -> LabelMap:
        keys = len(self.vocabulary.family("key"))
        kinds = keys**self.features
        if self.classes > self.world or self.world > kinds:
            raise ValueError(
                f"label_map needs at least as many classes in its world as in an example, and at "
                f"most the {kinds} that {self.features} features of {keys} keys can tell apart; "
                f"got a world of {self.world} and {self.classes} classes."
            )
        return self

    def example(self, random: Random, load: int) -> Example:
        if random.random() < self.anonymous:
            chosen = self._drawn(random, self.classes)
        else:
            chosen = random.sample(self._world, self.classes)
        shots = [kind for kind in chosen for _ in range(load)]
        random.shuffle(shots)
        context = [token for shot in shots for token in self._shot(random, shot)]
        asked = random.choices(chosen, k=self.questions)
        return Example(tuple(context), load, tuple(self._about(random, kind) for kind in asked))

    @cached_property
    def _world(self) -> list[Class]:
        return self._drawn(Random("label_map world"), self.world)

    def _drawn(self, random: Random, count: int) -> list[Class]:
        typical: dict[tuple[int, ...], None] = {}
        while len(typical) < count:
            typical[tuple(self.symbols(random, "key", self.features))] = None
        return list(zip(typical, self.sample(random, "value", count), strict=True))

    def _blurred(self, random: Random, kind: Class) -> list[int]:
        """Features of an example of a class."""
        return [
            self.symbols(random, "key", 1)[0] if random.random() < self.blur else feature
            for feature in kind[0]
        ]

    def _shot(self, random: Random, kind: Class) -> list[int]:
        return [*self._blurred(random, kind), self.sign("is"), kind[1]]

    def _about(self, random: Random, kind: Class) -> Question:
        prompt = (self.sign("ask"), *self._blurred(random, kind), self.sign("is"))
        return Question(prompt, (Part((kind[1],)),), self.sign("end"))

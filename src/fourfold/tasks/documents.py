"""New knowledge: many documents, then a question about one of them."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from pydantic import Field

from fourfold.tasks.bindings import BindingTask, Value
from fourfold.tasks.example import Example, Part, Question
from fourfold.tasks.task import Loads, up_to

Facts = Mapping[int, Value]
"""What a document says: a value for each of some attributes."""


class Documents(BindingTask):
    """Titles with facts among noise, then questions. The load is the documents.

    ``k5 n2 a1 v1 v7 n0 a3 v2 ; k2 a1 v4 n9 n3 a0 v6 ;``, then ``? k5 a1`` is answered
    ``v1 v7 .``

    The multi-document questions of RULER (arXiv 2404.06654), in symbols.

    Attributes:
        facts: of each document.
        filler: symbols of noise in each document.
    """

    name = "documents"
    asks_for = "Read, among documents"
    load_is = "documents"
    loads: Loads = up_to(8)
    facts: int = Field(default=2, ge=1)
    filler: int = Field(default=6, ge=0)

    def needs(self, load: int) -> dict[str, int]:
        noise = {"noise": 1} if self.filler else {}
        return {"key": load, "attribute": self.facts, "value": 2} | noise

    def example(self, random: Random, load: int) -> Example:
        texts = {title: self.told(random) for title in self.sample(random, "key", load)}
        context = [
            token for title, facts in texts.items() for token in self.written(random, title, facts)
        ]
        every = [(title, attribute) for title, facts in texts.items() for attribute in facts]
        asked = random.sample(every, min(len(every), self.questions))
        questions = (self._about(title, place, texts[title][place]) for title, place in asked)
        return Example(tuple(context), load, tuple(questions))

    def told(self, random: Random) -> Facts:
        """The facts of a new document, in the order in which it tells them."""
        return self.bind(random, self.sample(random, "attribute", self.facts))

    def written(self, random: Random, title: int, facts: Facts) -> list[int]:
        """A document: the noise falls between the facts at random."""
        pieces = [[attribute, *value] for attribute, value in facts.items()]
        pieces += [[token] for token in self.symbols(random, "noise", self.filler)]
        # The order of the facts is kept, so that what is written hangs on no more than it must.
        places = sorted(random.sample(range(len(pieces)), len(facts)))
        told, noise = iter(pieces[: len(facts)]), iter(pieces[len(facts) :])
        body = [next(told if place in places else noise) for place in range(len(pieces))]
        return [title, *(token for piece in body for token in piece), self.sign("done")]

    def _about(self, title: int, attribute: int, value: Value) -> Question:
        return Question((self.sign("ask"), title, attribute), (Part(value),), self.sign("end"))

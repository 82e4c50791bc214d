"""Read, composed: where a chain of links leads."""

from __future__ import annotations

from random import Random

from pydantic import Field, model_validator

from fourfold.tasks.example import Example, Part, Question
from fourfold.tasks.task import Loads, SymbolTask, up_to


class PointerChase(SymbolTask):
    """Links of one ring in shuffled order, then the node so many hops on. The load is the hops.

    ``k5 -> k2 k9 -> k5 k2 -> k9``, then ``? k9 > >`` is answered ``k2 .``

    The loads start at 1 and, in training, end at 2: two layers can compose two reads.

    Attributes:
        nodes: of the ring.
        starts: questions about one ring, each from another node.
    """

    name = "pointer_chase"
    asks_for = "Read, composed"
    load_is = "hops"
    loads: Loads = up_to(2)
    nodes: int = Field(default=10, ge=2)
    starts: int = Field(default=6, ge=1)

    @model_validator(mode="after")
    def _no_way_round(self) -> PointerChase:
        if self.loads.greatest >= self.nodes:
            raise ValueError(
                f"pointer_chase with {self.loads.greatest} hops needs more nodes than that, or the "
                f"way leads round the ring; got nodes = {self.nodes}."
            )
        return self

    def needs(self, load: int) -> dict[str, int]:
        return {"key": self.nodes}

    def example(self, random: Random, load: int) -> Example:
        ring = self.sample(random, "key", self.nodes)
        links = [(ring[place - 1], self.sign("link"), node) for place, node in enumerate(ring)]
        random.shuffle(links)
        questions = []
        for start in random.sample(range(self.nodes), min(self.starts, self.nodes)):
            goal = ring[(start + load) % self.nodes]
            hops = [self.sign("hop")] * load
            prompt = (self.sign("ask"), ring[start], *hops)
            questions.append(Question(prompt, (Part((goal,)),), self.sign("end")))
        context = tuple(token for link in links for token in link)
        return Example(context, load, tuple(questions))

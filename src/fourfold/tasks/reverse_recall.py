"""Read, from the other coordinate: the key of a value."""

from __future__ import annotations

from random import Random

from fourfold.tasks.bindings import BindingTask, written
from fourfold.tasks.example import Example, Part, Question
from fourfold.tasks.task import Loads, up_to


class ReverseRecall(BindingTask):
    """The pairs of kv_recall, no two values alike, then questions for the key of a value.

    ``k5 v1 v7 k2 v3``, then ``of v1 v7 =`` is answered ``k5 .``
    """

    name = "reverse_recall"
    asks_for = "Read, from the other coordinate"
    load_is = "pairs"
    loads: Loads = up_to(8)

    def needs(self, load: int) -> dict[str, int]:
        # Of n symbols there are n values of one token, n² of two, and so on; twice as many as are
        # needed leave room to draw from.
        symbols = 1
        while sum(symbols**length for length in range(1, self.value_tokens + 1)) < 2 * load:
            symbols += 1
        return {"key": load, "value": symbols}

    def example(self, random: Random, load: int) -> Example:
        pairs = self.bind(random, self.sample(random, "key", load), distinct=True)
        asked = random.sample(list(pairs), min(load, self.questions))
        questions = tuple(
            Question(
                prompt=(self.sign("reverse"), *pairs[key], self.sign("is")),
                parts=(Part((key,)),),
                end=self.sign("end"),
            )
            for key in asked
        )
        return Example(tuple(written(pairs)), load, questions)

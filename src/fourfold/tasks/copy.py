"""Remember: a span, over a long gap."""

from __future__ import annotations

from random import Random

from pydantic import Field

from fourfold.tasks.example import Example, Part, Question
from fourfold.tasks.task import Loads, SymbolTask, up_to


class Copy(SymbolTask):
    """A span of different values, a gap of noise, then the span is asked for. The load is the gap.

    ``v4 v9 v2 n7 n1 n1 n3``, then ``?`` is answered ``v4 v9 v2 .``

    Attributes:
        span: the most values; each span has 1 to that many.
    """

    name = "copy"
    asks_for = "Remember"
    load_is = "tokens of noise"
    loads: Loads = up_to(40)
    span: int = Field(default=8, ge=1)

    def needs(self, load: int) -> dict[str, int]:
        return {"value": self.span, "noise": 1}

    def example(self, random: Random, load: int) -> Example:
        span = tuple(self.sample(random, "value", random.randint(1, self.span)))
        noise = self.symbols(random, "noise", load)
        return Example((*span, *noise), load, (repeat(self, span),))


def repeat(task: SymbolTask, span: tuple[int, ...]) -> Question:
    """``?``, answered with a span."""
    return Question((task.sign("ask"),), (Part(span),), task.sign("end"))

"""Remember: what was marked, among what was not."""

from __future__ import annotations

from random import Random

from pydantic import Field

from fourfold.tasks.copy import repeat
from fourfold.tasks.example import Example
from fourfold.tasks.task import Loads, SymbolTask, up_to


class SelectiveCopy(SymbolTask):
    """Marked values scattered in noise, asked for in their order. The load is the noise.

    ``n3 * v4 n7 n1 * v9 n2``, then ``?`` is answered ``v4 v9 .``

    Attributes:
        marked: the most marked values; each example has 1 to that many, all different.
    """

    name = "selective_copy"
    asks_for = "Remember, by choice"
    load_is = "tokens of noise"
    loads: Loads = up_to(40)
    marked: int = Field(default=6, ge=1)

    def needs(self, load: int) -> dict[str, int]:
        return {"value": self.marked, "noise": 1}

    def example(self, random: Random, load: int) -> Example:
        marked = tuple(self.sample(random, "value", random.randint(1, self.marked)))
        pieces: list[tuple[int, ...]] = [(token,) for token in self.symbols(random, "noise", load)]
        places = sorted(random.choices(range(load + 1), k=len(marked)))
        for place, value in reversed(list(zip(places, marked, strict=True))):
            pieces.insert(place, (self.sign("mark"), value))
        context = tuple(token for piece in pieces for token in piece)
        return Example(context, load, (repeat(self, marked),))

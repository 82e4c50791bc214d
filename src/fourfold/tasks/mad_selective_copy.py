"""Remember: MAD's copying of what is not blank."""

from __future__ import annotations

from collections import Counter
from random import Random

from pydantic import Field

from fourfold.tasks.example import Example
from fourfold.tasks.mad import MadTask
from fourfold.tasks.task import Loads, Split


class MadSelectiveCopy(MadTask):
    """Values scattered among blanks, then a sign; at each blank after it the next value is to be
    named.

    ``_ v3 _ _ v9 v3 copy _ _ _``, where ``v3``, ``v9`` and ``v3`` are to be named after the last
    three blanks; they are not read again.

    Values may repeat. Each blank stands before a value drawn at random, so that the last value is
    next to the sign. Published lengths are 256, 512 and 1024; that the second and third serve as
    ood and stress is our choice.

    Attributes:
        vocabulary_size: all tokens but two are values; the two are the blank and the sign.
        tokens_to_copy: number of values.
    """

    name = "mad_selective_copy"
    asks_for = "Remember, by choice"
    loads: Loads = Loads(iid=(256, 256), ood=(512, 512), stress=(1024, 1024))
    vocabulary_size: int = Field(default=16, ge=3)
    tokens_to_copy: int = Field(default=16, ge=1)

    @property
    def shortest(self) -> int:
        return 2 * self.tokens_to_copy + 2

    @property
    def families(self) -> dict[str, range]:
        blank, sign = self.vocabulary_size - 2, self.vocabulary_size - 1
        return {"v{}": range(blank), "_": range(blank, sign), "copy": range(sign, sign + 1)}

    def draw(self, random: Random, split: Split) -> Example:
        values, (blank,), (copy,) = self.families.values()
        length = self.length(random, split)
        answer = self.tokens_to_copy
        copied = random.choices(values, k=answer)
        blanks = Counter(random.choices(range(answer), k=length - 2 * answer - 1))
        context: list[int] = []
        for number, value in enumerate(copied):
            context += [blank] * blanks[number] + [value]
        context += [copy] + [blank] * answer
        probes = enumerate(copied, start=length - answer)
        return Example(tuple(context), length, probes=tuple(probes))

"""Read: MAD's recall in context, without and with noise."""

from __future__ import annotations

from random import Random

from pydantic import Field, model_validator

from fourfold.tasks.example import Example
from fourfold.tasks.mad import MadTask
from fourfold.tasks.task import Loads, Split


class MadRecall(MadTask):
    """Pairs of a key and a value; the value of each key that was seen before is to be named.

    ``k5 v1 k2 v3 k5 v1 k2``, where ``v1`` is to be named after the second ``k5`` and ``v3`` after
    the second ``k2``. A value is read only once it was named, the last one not at all; the length
    counts it.

    A key keeps its value throughout an example; several keys may have the same. The last key is one
    of those seen. An odd length counts as the even one below it. Published lengths are 128, 256,
    512 and 1024; that the second and third serve as ood and stress is our choice.

    Attributes:
        vocabulary_size: one half of what is not noise are keys, the other values.
        noise_symbols: tokens that mean nothing.
        noise_share: chance that two tokens of noise stand in the place of a pair.
    """

    name = "mad_recall"
    asks_for = "Read"
    loads: Loads = Loads(iid=(128, 128), ood=(256, 256), stress=(512, 512))
    vocabulary_size: int = 16
    noise_symbols: int = Field(default=0, ge=0)
    noise_share: float = Field(default=0.0, ge=0, lt=1)

    @model_validator(mode="after")
    def _symbols_suffice(self) -> MadRecall:
        if self.vocabulary_size < self.noise_symbols + 2:
            raise ValueError(
                f"vocabulary_size of {self.name} must be {self.noise_symbols + 2} or more, for "
                f"{self.noise_symbols} noise_symbols, a key and a value; "
                f"got {self.vocabulary_size}."
            )
        if self.noise_share and not self.noise_symbols:
            raise ValueError(
                f"noise_symbols of {self.name} must be 1 or more for a noise_share of "
                f"{self.noise_share}; got 0."
            )
        return self

    @property
    def shortest(self) -> int:
        return 4

    @property
    def _bounds(self) -> tuple[int, int]:
        """Where values and noise begin."""
        meaningful = self.vocabulary_size - self.noise_symbols
        return meaningful // 2, meaningful

    @property
    def families(self) -> dict[str, range]:
        values, noise = self._bounds
        return {
            "k{}": range(values),
            "v{}": range(values, noise),
            "n{}": range(noise, self.vocabulary_size),
        }

    def draw(self, random: Random, split: Split) -> Example:
        keys, values, noise = self.families.values()
        pairs = self.length(random, split) // 2
        # One pair before the last is no noise, so that there is a key to end on.
        kept = random.randrange(pairs - 1)
        bound: dict[int, int] = {}
        context: list[int] = []
        probes: list[tuple[int, int]] = []
        for number in range(pairs - 1):
            if number != kept and random.random() < self.noise_share:
                context += random.choices(noise, k=2)
                continue
            key = random.choice(keys)
            if key in bound:
                probes.append((len(context), bound[key]))
            else:
                bound[key] = random.choice(values)
            context += (key, bound[key])
        key = random.choice(list(bound))
        probes.append((len(context), bound[key]))
        return Example((*context, key), 2 * pairs, probes=tuple(probes))


class MadNoisyRecall(MadRecall):
    """Recall among tokens of noise, in twos in the place of pairs.

    ``k5 v1 n3 n0 k2 v3 n3 n3 k5``, where ``v1`` is to be named after the second ``k5``.

    All else is as in ``MadRecall``.
    """

    name = "mad_noisy_recall"
    asks_for = "Read, among noise"
    vocabulary_size: int = 32
    noise_symbols: int = Field(default=16, ge=0)
    noise_share: float = Field(default=0.2, ge=0, lt=1)

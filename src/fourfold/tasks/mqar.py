"""Read, many times: multi-query associative recall, an outside yardstick."""

from __future__ import annotations

from random import Random
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, model_validator

from fourfold.tasks.example import Example
from fourfold.tasks.task import Split
from fourfold.tasks.yardstick import Yardstick

FILLER: Final = 0
"""The token that is neither key nor value."""


class Setting(BaseModel):
    """How long an example is and what it holds.

    Attributes:
        length: number of tokens.
        pairs: number of pairs, each asked for once.
        examples: how many such examples the published set has; the settings of a split are drawn
            in proportion.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    length: int
    pairs: int = Field(ge=1)
    examples: int = Field(default=1000, ge=1)

    @model_validator(mode="after")
    def _all_fits(self) -> Setting:
        if self.length % 2 or self.length < 4 * self.pairs:
            raise ValueError(
                f"length must be even and {4 * self.pairs} or more for {self.pairs} pairs; "
                f"got {self.length}."
            )
        return self


class Settings(BaseModel):
    """Settings of each split, by default those of Based (arXiv 2402.18668).

    Its tests also have (64, 8), (64, 16) and (128, 32), in length and pairs. They are denser than
    what is trained on but hold no more pairs, and are in no split here.

    Attributes:
        iid: of training, of validation, and of the test that is like training.
        ood: twice the most pairs of training.
        stress: four times that many.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    iid: tuple[Setting, ...] = Field(
        default=(
            Setting(length=64, pairs=4, examples=100_000),
            Setting(length=128, pairs=8, examples=20_000),
            Setting(length=256, pairs=16, examples=20_000),
            Setting(length=256, pairs=32, examples=20_000),
            Setting(length=256, pairs=64, examples=20_000),
        ),
        min_length=1,
    )
    ood: tuple[Setting, ...] = Field(default=(Setting(length=512, pairs=128),), min_length=1)
    stress: tuple[Setting, ...] = Field(default=(Setting(length=1024, pairs=256),), min_length=1)

    def of(self, split: Split) -> tuple[Setting, ...]:
        """Settings of a split."""
        return self.ood if split == "ood" else self.stress if split == "stress" else self.iid


class MQAR(Yardstick):
    """Pairs of a key and a value, then each key once more, to be named its value. The load is the
    pairs.

    ``k5 v1 k2 v3 k2 _ _ _ k5 _``, where ``v3`` is to be named after the second ``k2`` and ``v1``
    after the second ``k5``; neither is read. Here ``_`` stands for filler.

    Multi-query associative recall of Zoology (arXiv 2312.04927). All keys of an example differ, and
    so do its values. What follows the pairs is cut into slots of two tokens; a key that is asked
    takes the first of its slot. Random filler is drawn from all tokens, so it may happen to be a
    key; nothing is asked there.

    Attributes:
        power_a: slots are drawn one after another, without replacement, slot s = 1, 2, … with a
            chance in proportion to s^(power_a − 1). Small numbers ask soon; 1 spreads evenly.
        random_non_queries: fill with random tokens, as Based does, and not with ``_``, as in the
            figures of Zoology.
        settings: lengths and numbers of pairs.
    """

    name = "mqar"
    asks_for = "Read, many times"
    load_is = "pairs"
    vocabulary_size: int = Field(default=8192, ge=4)
    power_a: float = Field(default=0.01, gt=0, le=1)
    random_non_queries: bool = True
    settings: Settings = Field(default_factory=Settings)

    @model_validator(mode="after")
    def _keys_suffice(self) -> MQAR:
        every = (*self.settings.iid, *self.settings.ood, *self.settings.stress)
        most = max(setting.pairs for setting in every)
        if most > len(self.keys):
            raise ValueError(
                f"mqar with {most} pairs needs as many different keys; a vocabulary_size of "
                f"{self.vocabulary_size} has {len(self.keys)}."
            )
        return self

    @property
    def keys(self) -> range:
        """The lower half, without the filler."""
        return range(1, self.vocabulary_size // 2)

    @property
    def values(self) -> range:
        """The upper half."""
        return range(self.vocabulary_size // 2, self.vocabulary_size)

    @property
    def families(self) -> dict[str, range]:
        return {"_": range(1), "k{}": self.keys, "v{}": self.values}

    def draw(self, random: Random, split: Split) -> Example:
        settings = self.settings.of(split)
        setting = random.choices(settings, [one.examples for one in settings])[0]
        keys = random.sample(self.keys, setting.pairs)
        values = random.sample(self.values, setting.pairs)
        context = [token for pair in zip(keys, values, strict=True) for token in pair]
        start, rest = len(context), setting.length - len(context)
        filler = range(self.vocabulary_size) if self.random_non_queries else (FILLER,)
        context += random.choices(filler, k=rest)
        places = [start + 2 * slot for slot in self._slots(random, rest // 2)[: setting.pairs]]
        for place, key in zip(places, keys, strict=True):
            context[place] = key
        probes = sorted(zip(places, values, strict=True))
        return Example(tuple(context), setting.pairs, probes=tuple(probes))

    def _slots(self, random: Random, count: int) -> list[int]:
        """All slots from 0 to before ``count``, in the order in which they are drawn."""
        # Of clocks that ring at random, each at its own rate, the next to ring is any one with a
        # chance in proportion to its rate: so they ring in the order of weighted drawing.
        rings = [random.expovariate((slot + 1) ** (self.power_a - 1)) for slot in range(count)]
        return sorted(range(count), key=rings.__getitem__)

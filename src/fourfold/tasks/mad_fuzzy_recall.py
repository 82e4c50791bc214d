"""Read: MAD's recall of values of several tokens by keys of several tokens."""

from __future__ import annotations

from random import Random

from pydantic import Field, model_validator

from fourfold.tasks.example import Example
from fourfold.tasks.mad import MadTask
from fourfold.tasks.task import Loads, Split


class MadFuzzyRecall(MadTask):
    """Pairs of a key and a value of several tokens each; the value of each key that was seen before
    is to be named, token by token.

    ``_ _ k5 k1 v1 k2 v3 v0 v6 k5 k1 v1 k2 v3 v0``, where ``v1`` is to be named after the second
    ``k5 k1``, and ``v3 v0 v6`` after the second ``k2`` as they are read; the last of them is not.

    A key is told by all its tokens in their order, which differ from each other, and so do those of
    a value. Padding in front brings every example to its length. The last key is one of those seen.

    Published lengths are 128, 256, 512 and 1024; that the second and third serve as ood and stress
    is our choice. Keys of fewer than key_motif tokens occur in training only, as published;
    validation is like the tests in this, which is our choice.

    Attributes:
        vocabulary_size: one half of all but the token of padding are keys, the other values.
        key_motif: the most tokens of a key.
        value_motif: the most tokens of a value.
    """

    name = "mad_fuzzy_recall"
    asks_for = "Read, by several tokens"
    loads: Loads = Loads(iid=(128, 128), ood=(256, 256), stress=(512, 512))
    vocabulary_size: int = 16
    key_motif: int = Field(default=3, ge=1)
    value_motif: int = Field(default=3, ge=1)

    @model_validator(mode="after")
    def _symbols_suffice(self) -> MadFuzzyRecall:
        keys, values, _ = self.families.values()
        if len(keys) < self.key_motif or len(values) < self.value_motif:
            raise ValueError(
                f"vocabulary_size of {self.name} must leave {self.key_motif} tokens for keys and "
                f"{self.value_motif} for values; {self.vocabulary_size} leaves {len(keys)} and "
                f"{len(values)}."
            )
        return self

    @property
    def shortest(self) -> int:
        return 2 * (self.key_motif + self.value_motif)

    @property
    def families(self) -> dict[str, range]:
        padding = self.vocabulary_size - 1
        return {
            "k{}": range(padding // 2),
            "v{}": range(padding // 2, padding),
            "_": range(padding, padding + 1),
        }

    def draw(self, random: Random, split: Split) -> Example:
        keys, values, (padding,) = self.families.values()
        length = self.length(random, split)
        key_least = 1 if split == "train" else self.key_motif

        def new_key() -> tuple[int, ...]:
            return tuple(random.sample(keys, random.randint(key_least, self.key_motif)))

        def new_value() -> tuple[int, ...]:
            return tuple(random.sample(values, random.randint(1, self.value_motif)))

        last = (new_key(), new_value())
        bound = dict([last])
        pairs = []
        # The last pair stands twice, at the end and somewhere before.
        size = 2 * _size(last)
        while size < length - self.key_motif - self.value_motif:
            key = new_key()
            pairs.append((key, bound.setdefault(key, new_value())))
            size += _size(pairs[-1])
        pairs.insert(random.randint(0, len(pairs)), last)
        pairs.append(last)

        # One more than the length, since the last token of all is named but not read.
        context = [padding] * (length + 1 - size)
        probes: list[tuple[int, int]] = []
        seen = set()
        for key, value in pairs:
            context += key
            if key in seen:
                probes += enumerate(value, start=len(context) - 1)
            seen.add(key)
            context += value
        return Example(tuple(context[:-1]), length, probes=tuple(probes))


def _size(pair: tuple[tuple[int, ...], tuple[int, ...]]) -> int:
    """Tokens of a pair."""
    return len(pair[0]) + len(pair[1])

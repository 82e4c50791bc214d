"""What the tasks of MAD share, outside yardsticks."""

from __future__ import annotations

from abc import abstractmethod
from random import Random

from pydantic import model_validator

from fourfold.tasks.task import SPLITS, Loads, Split
from fourfold.tasks.yardstick import Yardstick


class MadTask(Yardstick):
    """A task of mechanistic architecture design, MAD (arXiv 2403.17844). The load is the length.

    Fields are by default those of MAD's baseline of the task. MAD varies one field at a time and
    trains anew for each; its greater lengths are here those of the tests ood and stress, of a model
    that was trained at the baseline's. What is scored is what MAD scores. MAD trains recall on
    every next token; here it is trained on what is scored.

    Attributes:
        loads: lengths in tokens.
    """

    load_is = "tokens"
    loads: Loads

    @property
    @abstractmethod
    def shortest(self) -> int:
        """The least length at which something can be asked."""

    @model_validator(mode="after")
    def _long_enough(self) -> MadTask:
        least = min(self.loads.of(split)[0] for split in SPLITS)
        if least < self.shortest:
            raise ValueError(
                f"loads of {self.name} must be {self.shortest} tokens or more; got {least}."
            )
        return self

    def length(self, random: Random, split: Split) -> int:
        """A length of a split."""
        return random.randint(*self.loads.of(split))

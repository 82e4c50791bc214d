"""What every task offers, and the loads at which it is asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from random import Random
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from fourfold.tasks.example import Example
from fourfold.tasks.vocabulary import FAMILIES, Vocabulary

Split = Literal["train", "validation", "iid", "ood", "stress"]
SPLITS: tuple[Split, ...] = ("train", "validation", "iid", "ood", "stress")


class Loads(BaseModel):
    """At which loads a task is trained and tested; each from the first number to the second.

    Attributes:
        iid: of training, of validation, and of the test that is like training.
        ood: about twice the most of training.
        stress: about four times that.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    iid: tuple[int, int]
    ood: tuple[int, int]
    stress: tuple[int, int]

    @model_validator(mode="after")
    def _ordered(self) -> Loads:
        for name in ("iid", "ood", "stress"):
            low, high = getattr(self, name)
            if not 1 <= low <= high:
                raise ValueError(f"{name} must go from 1 or more to no less; got {low} to {high}.")
        return self

    def of(self, split: Split) -> tuple[int, int]:
        """Least and greatest load of a split."""
        return self.ood if split == "ood" else self.stress if split == "stress" else self.iid

    @property
    def greatest(self) -> int:
        """The greatest load of all."""
        return max(self.iid[1], self.ood[1], self.stress[1])


def up_to(load: int) -> Loads:
    """Training from 1 to ``load``, then twice and four times that."""
    return Loads(iid=(1, load), ood=(2 * load, 2 * load), stress=(4 * load, 4 * load))


class Task(BaseModel, ABC):
    """A generator of examples: the same random state and split, the same example.

    Attributes:
        name: as it is called in configurations and tables.
        asks_for: what it tests, in a word of the four R's.
        load_is: what its load counts.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: ClassVar[str]
    asks_for: ClassVar[str]
    load_is: ClassVar[str]

    @property
    @abstractmethod
    def vocab_size(self) -> int:
        """Number of tokens."""

    @abstractmethod
    def word(self, token: int) -> str:
        """A token as people read it."""

    @abstractmethod
    def draw(self, random: Random, split: Split) -> Example:
        """Draw an example of a split."""


class SymbolTask(Task):
    """A task over the shared ``Vocabulary``.

    A subclass says in ``needs`` how many symbols of a family it must tell apart at a load, so that
    a configuration that cannot be drawn is refused when it is made.

    Attributes:
        vocabulary: the symbols.
        loads: at which the task is trained and tested.
    """

    loads: Loads
    vocabulary: Vocabulary = Field(default_factory=Vocabulary)

    @property
    def vocab_size(self) -> int:
        return self.vocabulary.size

    def word(self, token: int) -> str:
        return self.vocabulary.word(token)

    @abstractmethod
    def example(self, random: Random, load: int) -> Example:
        """Draw an example of a load."""

    def draw(self, random: Random, split: Split) -> Example:
        return self.example(random, random.randint(*self.loads.of(split)))

    def needs(self, load: int) -> dict[str, int]:
        """Symbols needed of each family that matters."""
        return {}

    @model_validator(mode="after")
    def _symbols_suffice(self) -> SymbolTask:
        for family, needed in self.needs(self.loads.greatest).items():
            assert family in FAMILIES
            held = len(self.vocabulary.family(family))
            if needed > held:
                raise ValueError(
                    f"{self.name} at load {self.loads.greatest} needs {needed} different symbols "
                    f"of the family {family!r}; the vocabulary holds {held}."
                )
        return self

    def sample(self, random: Random, family: str, count: int) -> list[int]:
        """Different symbols of a family."""
        return random.sample(self.vocabulary.family(family), count)

    def symbols(self, random: Random, family: str, count: int) -> list[int]:
        """Symbols of a family that may repeat."""
        return random.choices(self.vocabulary.family(family), k=count)

    def sign(self, name: str) -> int:
        """The token of a sign."""
        return self.vocabulary.sign(name)

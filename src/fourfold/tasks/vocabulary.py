"""The symbols of the memory tasks, numbered once for all of them."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

SIGNS = {
    "pad": "_",
    "end": ".",
    "ask": "?",
    "reverse": "of",
    "is": "=",
    "nothing": "nothing",
    "mark": "*",
    "move": "move",
    "swap": "swap",
    "forget": "forget",
    "done": ";",
    "link": "->",
    "hop": ">",
}
"""Signs by name, as they are printed; a sign's number is its place here."""

FAMILIES = ("attribute", "key", "value", "noise", "task")
"""Families of interchangeable symbols, in the order of their numbers."""


class Vocabulary(BaseModel):
    """How many symbols of each family there are.

    Attributes:
        attributes: places within an entity.
        keys: names that can be bound.
        values: what they can be bound to.
        noise: symbols that mean nothing.
        tasks: symbols that say which task a sequence belongs to.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    attributes: int = Field(default=4, ge=0)
    keys: int = Field(default=32, ge=0)
    values: int = Field(default=16, ge=0)
    noise: int = Field(default=16, ge=0)
    tasks: int = Field(default=9, ge=0)

    @property
    def size(self) -> int:
        """Number of all tokens."""
        return len(SIGNS) + sum(self._counts())

    def sign(self, name: str) -> int:
        """The token of a sign, such as "ask"."""
        return _SIGN_NUMBERS[name]

    def family(self, name: str) -> range:
        """The tokens of a family, such as "key"."""
        place = FAMILIES.index(name)
        start = len(SIGNS) + sum(self._counts()[:place])
        return range(start, start + self._counts()[place])

    def word(self, token: int) -> str:
        """A token as people read it: "k12", "v3", "?"."""
        if token < len(SIGNS):
            return list(SIGNS.values())[token]
        for name in FAMILIES:
            if token in self.family(name):
                return f"{name[0]}{token - self.family(name).start}"
        raise ValueError(f"token must be less than the vocabulary's {self.size}; got {token}.")

    def _counts(self) -> tuple[int, ...]:
        return (self.attributes, self.keys, self.values, self.noise, self.tasks)


_SIGN_NUMBERS = {name: number for number, name in enumerate(SIGNS)}

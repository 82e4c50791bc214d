"""Keys bound to values: what five of the tasks share."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from pydantic import Field

from fourfold.tasks.example import Kind, Part, Question
from fourfold.tasks.task import SymbolTask

Value = tuple[int, ...]


class BindingTask(SymbolTask):
    """A task over keys that are bound to values of one or more tokens.

    Attributes:
        value_tokens: the most tokens of a value; each value has 1 to that many.
        questions: the most questions asked about one example.
    """

    value_tokens: int = Field(default=3, ge=1)
    questions: int = Field(default=8, ge=1)

    def new_value(self, random: Random, other_than: tuple[Value, ...] = ()) -> Value:
        """A value of 1 to value_tokens tokens, none of ``other_than``."""
        while True:
            length = random.randint(1, self.value_tokens)
            value = tuple(self.symbols(random, "value", length))
            if value not in other_than:
                return value

    def bind(
        self, random: Random, keys: Iterable[int], *, distinct: bool = False
    ) -> dict[int, Value]:
        """A value for each key; ``distinct`` gives no two keys the same."""
        pairs: dict[int, Value] = {}
        for key in keys:
            pairs[key] = self.new_value(random, tuple(pairs.values()) if distinct else ())
        return pairs

    def said(self, value: Value | None) -> Value:
        """What a question for a value is answered; None is nothing."""
        return (self.sign("nothing"),) if value is None else value

    def about(
        self, key: int, value: Value | None, kind: Kind, stale: tuple[Value, ...] = ()
    ) -> Question:
        """``? key``."""
        return Question(
            prompt=(self.sign("ask"), key),
            parts=(Part(self.said(value), kind, stale),),
            end=self.sign("end"),
        )


def written(pairs: dict[int, Value]) -> list[int]:
    """Each key followed by its value, as they are read."""
    return [token for key, value in pairs.items() for token in (key, *value)]

"""Rewrite, to another address: values move between keys."""

from __future__ import annotations

from random import Random

from pydantic import Field, model_validator

from fourfold.tasks.bindings import BindingTask, Value, written
from fourfold.tasks.example import Example, Kind
from fourfold.tasks.task import Loads, up_to


class Rebind(BindingTask):
    """Bindings, then moves to keys that hold nothing and swaps. The load is these.

    No two of the values are alike.

    ``k5 v1 k2 v3 move k5 k7 ; swap k7 k2 ;``, then ``? k7`` is answered ``v3 .`` and ``? k5``
    is answered ``nothing .``

    Attributes:
        bound: keys that hold a value.
        free: keys that hold none, as many after every move as before.
    """

    name = "rebind"
    asks_for = "Rewrite, to another address"
    load_is = "moves and swaps"
    loads: Loads = up_to(4)
    value_tokens: int = Field(default=1, ge=1)
    bound: int = Field(default=4, ge=1)
    free: int = Field(default=2, ge=0)

    def needs(self, load: int) -> dict[str, int]:
        return {"key": self.bound + self.free, "value": self.bound}

    @model_validator(mode="after")
    def _something_can_move(self) -> Rebind:
        if self.bound < 2 and self.free < 1:
            raise ValueError("rebind needs a second bound key to swap with, or a free one.")
        return self

    def example(self, random: Random, load: int) -> Example:
        keys = self.sample(random, "key", self.bound + self.free)
        pairs = self.bind(random, keys[: self.bound], distinct=True)
        context = written(pairs)
        # All that each key has held, what it holds now last; None is nothing.
        held: dict[int, list[Value | None]] = {key: [pairs.get(key)] for key in keys}
        for _ in range(load):
            full = [key for key in keys if held[key][-1] is not None]
            free = [key for key in keys if held[key][-1] is None]
            moves = bool(free) and (self.bound < 2 or random.random() < 0.5)
            a = random.choice(full)
            b = random.choice(free if moves else [key for key in full if key != a])
            content_a, content_b = held[a][-1], held[b][-1]
            held[a].append(content_b)
            held[b].append(content_a)
            context += [self.sign("move" if moves else "swap"), a, b, self.sign("done")]
        questions = []
        for key in random.sample(keys, min(len(keys), self.questions)):
            past = held[key]
            kind: Kind = "current" if len(past) > 1 else "untouched"
            if past[-1] is None:
                kind = "empty"
            stale = tuple(self.said(value) for value in dict.fromkeys(past) if value != past[-1])
            questions.append(self.about(key, past[-1], kind, stale))
        return Example(tuple(context), load, tuple(questions))

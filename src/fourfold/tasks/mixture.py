"""All tasks in one stream."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from pydantic import Field, model_validator

from fourfold.tasks.copy import Copy
from fourfold.tasks.example import Example
from fourfold.tasks.forget import Forget
from fourfold.tasks.kv_recall import KeyValueRecall
from fourfold.tasks.overwrite import Overwrite
from fourfold.tasks.pointer_chase import PointerChase
from fourfold.tasks.rebind import Rebind
from fourfold.tasks.reverse_recall import ReverseRecall
from fourfold.tasks.revise import Revise
from fourfold.tasks.selective_copy import SelectiveCopy
from fourfold.tasks.task import Split, SymbolTask, Task
from fourfold.tasks.vocabulary import Vocabulary

NINE: tuple[type[SymbolTask], ...] = (
    KeyValueRecall,
    ReverseRecall,
    Copy,
    SelectiveCopy,
    Revise,
    Overwrite,
    Rebind,
    Forget,
    PointerChase,
)
"""The nine tasks, in the order of tables."""


def _all_nine() -> tuple[SymbolTask, ...]:
    return tuple(task.model_validate({}) for task in NINE)


class Mixture(Task):
    """Examples of all tasks in equal parts, each behind the symbol of its task.

    ``t0 k5 v1 v7 k2 v3``, then ``? k5`` is answered ``v1 v7 .``

    Attributes:
        tasks: those that are mixed; the first has symbol t0.
    """

    name = "mixed_all"
    asks_for = "all of them"
    load_is = "as in each task"
    tasks: tuple[SymbolTask, ...] = Field(default_factory=_all_nine)

    @model_validator(mode="after")
    def _one_vocabulary(self) -> Mixture:
        if len({task.vocabulary for task in self.tasks}) != 1:
            raise ValueError("tasks of a mixture must be one or more and share one vocabulary.")
        symbols = len(self._vocabulary.family("task"))
        if len(self.tasks) > symbols:
            raise ValueError(
                f"A mixture of {len(self.tasks)} tasks needs as many task symbols; the vocabulary "
                f"holds {symbols}."
            )
        return self

    @property
    def _vocabulary(self) -> Vocabulary:
        return self.tasks[0].vocabulary

    @property
    def vocab_size(self) -> int:
        return self._vocabulary.size

    def word(self, token: int) -> str:
        return self._vocabulary.word(token)

    def draw(self, random: Random, split: Split) -> Example:
        number = random.randrange(len(self.tasks))
        task = self.tasks[number]
        example = task.draw(random, split)
        symbol = self._vocabulary.family("task")[number]
        return replace(example, context=(symbol, *example.context), task=task.name)

"""Examples by number, kept apart by split."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from random import Random
from typing import Final

from fourfold.tasks.example import Example
from fourfold.tasks.task import Split, Task

BUCKETS: Final = 8
VALIDATION, TEST = 0, 1
"""Which of the buckets belong to validation and test; the others belong to training."""


@dataclass(frozen=True)
class Source:
    """Example ``index`` of a split, whoever asks for it and in whatever order.

    What is read in an example decides, by its hash, whether it may be trained on, validated with or
    tested on; an example drawn for another use is drawn again. So no context of a test ever occurs
    in training, however few there are.

    Attributes:
        task: what is drawn.
        seed: of the draws. Training takes the seed of its run; tests of one task all take seed 0.
    """

    task: Task
    seed: int = 0

    def example(self, split: Split, index: int) -> Example:
        """The example; a function of task, seed, split and index alone.

        Raises:
            ValueError: the task has too few examples to keep the splits apart.
        """
        random = Random(f"{self.task.name} {split} {self.seed} {index}")
        for _ in range(100 * BUCKETS):
            example = self.task.draw(random, split)
            if use_of(example) == _USES.get(split, "test"):
                return example
        raise ValueError(
            f"{self.task.name} has too few different examples to keep its splits apart: none of "
            f"{100 * BUCKETS} drawn belongs to {split}. Give it more symbols or longer sequences."
        )

    def examples(self, split: Split, start: int, stop: int) -> list[Example]:
        """The examples from ``start`` to before ``stop``."""
        return [self.example(split, index) for index in range(start, stop)]


_USES = {"train": "train", "validation": "validation"}


def use_of(example: Example) -> str:
    """What an example may be used for, "train", "validation" or "test": a hash of its context.

    A mixture's task symbol does not count, so that a context has the same use in both.
    """
    context = example.context[1:] if example.task else example.context
    bucket = blake2b(repr(context).encode(), digest_size=1).digest()[0] % BUCKETS
    return {VALIDATION: "validation", TEST: "test"}.get(bucket, "train")

"""Synthetic memory tasks: what is read, what is asked, what is right."""

from fourfold.tasks.example import Example, Part, Question
from fourfold.tasks.registry import TASKS, make_task
from fourfold.tasks.source import Source
from fourfold.tasks.task import SPLITS, Loads, Split, Task
from fourfold.tasks.vocabulary import Vocabulary

__all__ = [
    "SPLITS",
    "TASKS",
    "Example",
    "Loads",
    "Part",
    "Question",
    "Source",
    "Split",
    "Task",
    "Vocabulary",
    "make_task",
]

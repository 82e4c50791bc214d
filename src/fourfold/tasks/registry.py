"""All tasks by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fourfold.settings import one_of, validated
from fourfold.tasks.closed_book import ClosedBook
from fourfold.tasks.documents import Documents
from fourfold.tasks.induction import Induction
from fourfold.tasks.label_map import LabelMap
from fourfold.tasks.mad_fuzzy_recall import MadFuzzyRecall
from fourfold.tasks.mad_recall import MadNoisyRecall, MadRecall
from fourfold.tasks.mad_selective_copy import MadSelectiveCopy
from fourfold.tasks.mixture import NINE, Mixture
from fourfold.tasks.mqar import MQAR
from fourfold.tasks.task import SPLITS, Split, Task

_KINDS: tuple[type[Task], ...] = (
    *NINE,
    Mixture,
    ClosedBook,
    Documents,
    LabelMap,
    MQAR,
    MadRecall,
    MadNoisyRecall,
    MadFuzzyRecall,
    MadSelectiveCopy,
    Induction,
)

TASKS: dict[str, type[Task]] = {task.name: task for task in _KINDS}
"""Every task, in the order of tables: the nine, their mixture, the three kinds of knowledge, then
what others published."""


def make_task(name: str, settings: Mapping[str, Any] | None = None) -> Task:
    """The task called ``name``, with its fields as given and otherwise as they are by default.

    Raises:
        ValueError: a sentence: no such task or field (with the nearest), or a value that is not
            accepted.
    """
    kind = TASKS[one_of("task", name, TASKS)]
    return validated(kind, settings or {}, name)


def check_split(name: str) -> Split:
    """``name``, if it is a split.

    Raises:
        ValueError: a sentence with the nearest name.
    """
    return one_of("split", name, SPLITS)

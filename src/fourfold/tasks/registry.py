"""All tasks by name."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from fourfold.tasks.mad_fuzzy_recall import MadFuzzyRecall
from fourfold.tasks.mad_recall import MadNoisyRecall, MadRecall
from fourfold.tasks.mad_selective_copy import MadSelectiveCopy
from fourfold.tasks.mixture import NINE, Mixture
from fourfold.tasks.mqar import MQAR
from fourfold.tasks.task import SPLITS, Split, Task

_KINDS: tuple[type[Task], ...] = (
    *NINE,
    Mixture,
    MQAR,
    MadRecall,
    MadNoisyRecall,
    MadFuzzyRecall,
    MadSelectiveCopy,
)

Model = TypeVar("Model", bound=BaseModel)

TASKS: dict[str, type[Task]] = {task.name: task for task in _KINDS}
"""Every task, in the order of tables: the nine, their mixture, then what others published."""


def make_task(name: str, settings: Mapping[str, Any] | None = None) -> Task:
    """The task called ``name``, with its fields as given and otherwise as they are by default.

    Raises:
        ValueError: a sentence: no such task or field (with the nearest), or a value that is not
            accepted.
    """
    if name not in TASKS:
        raise ValueError(
            f"task must be one of {', '.join(TASKS)}; got {name!r}.{near(name, TASKS)}"
        )
    kind = TASKS[name]
    return validated(kind, settings or {}, name)


def check_split(name: str) -> Split:
    """``name``, if it is a split.

    Raises:
        ValueError: a sentence with the nearest name.
    """
    if name not in SPLITS:
        raise ValueError(
            f"split must be one of {', '.join(SPLITS)}; got {name!r}.{near(name, SPLITS)}"
        )
    return name


def validated(kind: type[Model], content: Mapping[str, Any], what: str) -> Model:
    """``kind`` made from ``content``.

    Raises:
        ValueError: a sentence about ``what``: an unknown field, with the nearest, or the first
            value that is not accepted.
    """
    for field in content:
        if field not in kind.model_fields:
            raise ValueError(
                f"{what} has no field {field!r}; it has {', '.join(kind.model_fields)}."
                f"{near(str(field), kind.model_fields)}"
            )
    try:
        return kind(**content)
    except ValidationError as error:
        raise ValueError(f"{what}: {_first_fault(error)}") from error


def near(name: str, names: Any) -> str:
    """ " Did you mean …?", or nothing if no name is near."""
    found = get_close_matches(name, list(names), n=1)
    return f" Did you mean {found[0]!r}?" if found else ""


def _first_fault(error: ValidationError) -> str:
    """What is wrong, as a sentence."""
    fault = error.errors()[0]
    place = ".".join(map(str, fault["loc"]))
    message = fault["msg"].removeprefix("Value error, ")
    return f"{place}: {message}" if place else message

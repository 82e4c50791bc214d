"""Three kinds of evaluation, of seed 003: what is known, what was read, what examples teach."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fourfold.evaluation.suites.in_context import InContextSuite
from fourfold.evaluation.suites.knowledge import KnowledgeSuite
from fourfold.evaluation.suites.new_knowledge import NewKnowledgeSuite
from fourfold.evaluation.suites.suite import Row, Suite
from fourfold.settings import change_fields, one_of, validated

_KINDS: tuple[type[Suite], ...] = (KnowledgeSuite, NewKnowledgeSuite, InContextSuite)

SUITES: dict[str, type[Suite]] = {suite.name: suite for suite in _KINDS}
"""All suites by name."""


def make_suite(name: str, data: Any, changes: Iterable[str] = ()) -> Suite:
    """The suite called ``name`` on the file ``data``.

    Args:
        changes: "field=value" for others of its fields.

    Raises:
        ValueError: a sentence: no such suite or field (with the nearest), or a value that is not
            accepted.
    """
    kind = SUITES[one_of("suite", name, SUITES)]
    content = {"data": data}
    change_fields(content, changes, like="examples=50")
    return validated(kind, content, name)


__all__ = ["SUITES", "Row", "Suite", "make_suite"]

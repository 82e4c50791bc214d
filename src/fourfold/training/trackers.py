"""The trackers of Accelerate that a run may log to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from accelerate.tracking import get_available_trackers
from accelerate.utils import LoggerType

from fourfold.settings import near


def check_trackers(names: tuple[str, ...]) -> None:
    """See that all ``names`` are known and installed.

    Raises:
        ValueError: one is not.
    """
    known = [tracker.value for tracker in LoggerType if tracker.value != "all"]
    available = [str(getattr(tracker, "value", tracker)) for tracker in get_available_trackers()]
    for name in names:
        if name not in known:
            raise ValueError(
                f"trackers must be taken from {', '.join(known)}; got {name!r}.{near(name, known)}"
            )
        if name not in available:
            raise ValueError(f"The tracker {name} is not installed; pip install {name}.")


def flat(content: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one, with dots, as trackers want it."""
    found: dict[str, Any] = {}
    for key, value in content.items():
        if isinstance(value, dict):
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[prefix + key] = value if isinstance(value, (int, float, str)) else str(value)
    return found

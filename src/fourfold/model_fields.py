"""What files of settings say of a model: its memory, and fields of its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, get_type_hints

from pydantic import TypeAdapter

from fourfold.models import FourfoldConfig
from fourfold.models.registry import LAYER_TYPES, TO_REGISTER
from fourfold.settings import near, one_of, refuse_flag

# Of the fields of FourfoldConfig itself: those of its bases do not all resolve.
_KINDS: dict[str, Any] = get_type_hints(
    SimpleNamespace(__annotations__=FourfoldConfig.__annotations__)
)


def check_layer(name: str) -> str:
    """``name``, if it is one of ``layer_types``, or registered.

    Raises:
        ValueError: a sentence with the nearest name.
    """
    return one_of("layer", name, LAYER_TYPES, else_say=TO_REGISTER)


def as_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """``fields`` as the types that ``FourfoldConfig`` has for them.

    Raises:
        ValueError: a sentence: there is no such field (with the nearest), or it is of another type.
    """
    for name in fields:
        if name not in _KINDS:
            raise ValueError(
                f"fields must be fields of FourfoldConfig; got {name!r}.{near(name, _KINDS)}"
            )
    return {name: _as_field(name, value) for name, value in fields.items()}


def _as_field(name: str, value: Any) -> Any:
    """``value`` as the type that ``FourfoldConfig`` has for ``name``.

    Raises:
        ValueError: it is of another.
    """
    if value is None and getattr(FourfoldConfig, name) is None:
        return None
    kind = _KINDS[name]
    try:
        refuse_flag(value, kind)
        return TypeAdapter(kind).validate_python(value)
    except ValueError as error:
        said = getattr(kind, "__name__", None) if isinstance(kind, type) else str(kind)
        raise ValueError(f"{name} must be of type {said}; got {value!r}.") from error

"""Files of settings: YAML, checked field by field, refused with a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator

Model = TypeVar("Model", bound=BaseModel)
Name = TypeVar("Name", bound=str)


class Section(BaseModel):
    """A part of a file of settings; fields that it does not know are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @field_validator("*", mode="before")
    @classmethod
    def _numbers(cls, value: Any, info: ValidationInfo) -> Any:
        assert info.field_name is not None
        refuse_flag(value, cls.model_fields[info.field_name].annotation)
        return value


def refuse_flag(value: Any, kind: Any) -> None:
    """See that ``value`` is not true or false where ``kind`` asks for a number.

    Raises:
        ValueError: it is; pydantic would take it as 1 or 0.
    """
    kinds = {kind, *get_args(kind)}
    if isinstance(value, bool) and kinds & {int, float} and bool not in kinds:
        raise ValueError(
            f"must be a number; got {str(value).lower()}, as YAML reads yes or no too."
        )


def read_mapping(path: Path, holds: str) -> dict[str, Any]:
    """The mapping in a YAML file.

    Args:
        holds: what should be in it, for the message.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no YAML file, or holds no mapping.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise OSError(f"{path} cannot be read: {error.strerror}.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no YAML file: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} must hold a mapping with {holds}.")
    return content


def change_fields(content: dict[str, Any], changes: Iterable[str], *, like: str) -> None:
    """Set fields of ``content`` as a user wrote them behind a command.

    Args:
        changes: "field=value", or "outer.inner=value"; the value is read as YAML.
        like: an example, for the message.

    Raises:
        ValueError: a change has another form.
    """
    for change in changes:
        field, sign, text = change.partition("=")
        if not sign or not field:
            raise ValueError(f"A change must be field=value, like {like}; got {change}.")
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ValueError(f"The value of {field} is no YAML: {text!r}.") from error
        *outer, last = field.split(".")
        place = content
        for name in outer:
            place = place.setdefault(name, {})
            if not isinstance(place, dict):
                raise ValueError(f"{change}: {name} has no fields.")
        place[last] = value


def validated(kind: type[Model], content: Mapping[str, Any], what: str) -> Model:
    """``kind`` made from ``content``.

    Raises:
        ValueError: a sentence about ``what``: an unknown field, with the nearest, or the first
            value that is not accepted.
    """
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        raise ValueError(_first_fault(kind, error, what)) from error


def near(name: str, names: Any) -> str:
    """ " Did you mean …?", or nothing if no name is near."""
    found = get_close_matches(name, list(names), n=1)
    return f" Did you mean {found[0]!r}?" if found else ""


def one_of(what: str, name: str, names: Iterable[Name], *, else_say: str = "") -> Name:
    """``name``, if it is one of ``names``.

    Args:
        else_say: what to add to the sentence.

    Raises:
        ValueError: a sentence about ``what``, with all names and the nearest.
    """
    known = list(names)
    for one in known:
        if one == name:
            return one
    sentence = f"{what} must be one of {', '.join(known)}; got {name!r}.{near(name, known)}"
    raise ValueError(f"{sentence} {else_say}".rstrip())


def _first_fault(kind: type[BaseModel], error: ValidationError, what: str) -> str:
    """What is wrong, as a sentence; a misspelt field first, for others may follow from it."""
    faults = error.errors()
    fault = next((fault for fault in faults if fault["type"] == "extra_forbidden"), faults[0])
    *outer, name = fault["loc"] or ("",)
    if fault["type"] == "extra_forbidden":
        owner: Any = kind
        for part in outer:
            owner = _inside(owner, part)
        names = getattr(owner, "model_fields", {})
        place = f"{what}: {'.'.join(map(str, outer))}" if outer else what
        return f"{place} has no field {name!r}; it has {', '.join(names)}.{near(str(name), names)}"
    place = ".".join(map(str, fault["loc"]))
    message = fault["msg"].removeprefix("Value error, ")
    return f"{what}: {place}: {message}" if place else f"{what}: {message}"


def _inside(kind: Any, part: Any) -> Any:
    """The type of what stands at ``part`` of a section or a mapping, optional or not."""
    fields = getattr(kind, "model_fields", None)
    if fields is not None:
        kind = fields[part].annotation if part in fields else None
    else:
        kind = get_args(kind)[-1] if get_origin(kind) is dict else None
    options = [option for option in get_args(kind) if option is not type(None)]
    return options[0] if len(options) == 1 else kind

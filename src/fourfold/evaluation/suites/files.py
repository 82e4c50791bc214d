"""Files of examples, as they are published."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from fourfold.data.sources import COMPRESSIONS, opened
from fourfold.settings import validated

Form = TypeVar("Form", bound=BaseModel)


def content(path: Path) -> str:
    """The text of a file, decompressed if it is compressed.

    Raises:
        FileNotFoundError: nothing is there.
        OSError: it cannot be read.
        ValueError: it is damaged, or no UTF-8.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path} is no file.")
    with opened(path, UnicodeDecodeError) as file:
        return file.read().decode("utf-8-sig")


def kind(path: Path) -> str:
    """The ending of a file's name, such as ".csv", but for that of a compression."""
    return next((end for end in reversed(path.suffixes) if end not in COMPRESSIONS), "")


def lines(path: Path) -> Iterator[tuple[str, str]]:
    """Each line of a file that is not blank, behind the place where it stands, for messages.

    Raises:
        FileNotFoundError, OSError, ValueError: as ``content``.
    """
    for number, line in enumerate(content(path).split("\n"), 1):
        if line.strip():
            yield f"{path}, line {number}", line


def json_of(text: str, form: type[Form], place: str) -> Form:
    """``form`` from JSON.

    Args:
        place: where it stands, for the message.

    Raises:
        ValueError: it is no JSON, or of another form.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{place}: this is no JSON: {error}.") from error
    if not isinstance(found, dict):
        raise ValueError(f"{place}: must be a JSON object; got {type(found).__name__}.")
    return validated(form, found, place)

"""Texts with a label each, from files as they are published."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from fourfold.evaluation.suites.files import content, json_of, kind, lines


@dataclass(frozen=True)
class Labelled:
    """A text and what it is called."""

    text: str
    label: str


class _Line(BaseModel):
    text: str
    label: str


def read_labelled(path: Path, names: Path | None = None) -> list[Labelled]:
    """Labelled texts of a file: .csv, .tsv or .jsonl, compressed or not.

    A .csv has a line of names above: its column ``text`` and the one of ``label``, ``category`` or
    ``intent``. A .tsv has none: its first column is the text, its second the label. A .jsonl has a
    ``text`` and a ``label`` a line. A text with several labels, set off by commas, is left out.

    Args:
        names: file with the name of each label, a line each, where the labels are numbers from 0.

    Raises:
        FileNotFoundError: nothing is there.
        OSError: a file cannot be read.
        ValueError: a file has another form (line named), or fewer than two labels.
    """
    readers = {".csv": _csv, ".tsv": _tsv, ".jsonl": _jsonl}
    reader = readers.get(kind(path))
    if reader is None:
        raise ValueError(f"{path} must end in one of {', '.join(readers)}.")
    found = list(reader(path))
    if names is not None:
        known = content(names).split("\n")
        found = [Labelled(one.text, _name(one.label, known, path, names)) for one in found]
    if len({one.label for one in found}) < 2:
        raise ValueError(f"{path} must hold texts of two labels or more.")
    return found


def _name(label: str, known: list[str], path: Path, names: Path) -> str:
    if not label.isdecimal() or int(label) >= len(known) or not known[int(label)].strip():
        raise ValueError(
            f"{path} has the label {label!r}, which is the number of no line of {names}."
        )
    return known[int(label)].strip()


def _csv(path: Path) -> Iterator[Labelled]:
    rows = csv.DictReader(io.StringIO(content(path), newline=""))
    columns = rows.fieldnames or []
    label = next((name for name in ("label", "category", "intent") if name in columns), None)
    if "text" not in columns or label is None:
        raise ValueError(
            f"{path} must have a column text, and one label, category or intent; it has "
            f"{', '.join(columns) or 'none'}."
        )
    for row in _each(path, rows):
        if not row["text"] or not row[label]:
            raise ValueError(f"{path}, line {rows.line_num}: must have a text and a {label}.")
        yield Labelled(row["text"], row[label])


def _each(path: Path, rows: csv.DictReader[str]) -> Iterator[dict[str, str]]:
    try:
        yield from rows
    except csv.Error as error:
        raise ValueError(f"{path}, line {rows.line_num}: {error}.") from error


def _tsv(path: Path) -> Iterator[Labelled]:
    for place, line in lines(path):
        columns = line.split("\t")
        if len(columns) < 2 or not columns[0].strip() or not columns[1].strip():
            raise ValueError(f"{place}: must have a text, a tab and a label.")
        if "," not in columns[1]:
            yield Labelled(columns[0].strip(), columns[1].strip())


def _jsonl(path: Path) -> Iterator[Labelled]:
    for place, line in lines(path):
        found = json_of(line, _Line, place)
        yield Labelled(found.text, found.label)

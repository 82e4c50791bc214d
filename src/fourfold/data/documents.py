"""Where text comes from: the user's files, or the sources of the Python that runs."""

from __future__ import annotations

import json
import os
import sysconfig
from dataclasses import dataclass
from pathlib import Path

SUFFIXES = (".txt", ".md", ".jsonl")

_NOT_LIBRARY = frozenset({"__pycache__", "idle_test", "site-packages", "test", "tests"})


@dataclass(frozen=True)
class Document:
    """A text as UTF-8 bytes; ``name`` tells it from all others of its source."""

    name: str
    text: bytes


def standard_library() -> list[Document]:
    """The modules of Python's standard library, without their tests: code and English.

    Names and phrases come back again and again there, which is what a memory is for; and it is on
    every machine that runs this, with nothing to download.
    """
    root = Path(sysconfig.get_paths()["stdlib"])
    paths = (
        path
        for path in sorted(root.rglob("*.py"))
        if not _NOT_LIBRARY.intersection(path.relative_to(root).parts)
    )
    return _with_text([_read(path, path.relative_to(root).as_posix()) for path in paths])


def read_documents(path: str | os.PathLike[str]) -> list[Document]:
    """Documents of a .txt, .md or .jsonl file, or of all such files below a folder.

    A .jsonl file holds one JSON object a line, each with a "text": one document a line. Empty
    documents are left out.

    Raises:
        FileNotFoundError: nothing is there.
        ValueError: a file of another kind, no document at all, or a bad line (file and line named).
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    if path.is_file():
        if path.suffix.lower() not in SUFFIXES:
            raise ValueError(f"{path} must end in {', '.join(SUFFIXES)}.")
        root, files = path.parent, [path]
    else:
        found = (x for x in path.rglob("*") if x.suffix.lower() in SUFFIXES and x.is_file())
        root, files = path, sorted(found)
    documents = []
    for file in files:
        name = printable(file.relative_to(root).as_posix())
        lines = file.suffix.lower() == ".jsonl"
        documents += _read_lines(file, name) if lines else [_read(file, name)]
    documents = _with_text(documents)
    if not documents:
        raise ValueError(f"{path} holds no text in files that end in {', '.join(SUFFIXES)}.")
    return documents


def printable(name: str) -> str:
    """A file name that can be shown and written: bytes that are no UTF-8 are replaced."""
    return name.encode(errors="surrogateescape").decode(errors="replace")


def _with_text(documents: list[Document]) -> list[Document]:
    return [document for document in documents if document.text.strip()]


def _read(path: Path, name: str) -> Document:
    return Document(name, path.read_bytes())


def _read_lines(path: Path, name: str) -> list[Document]:
    documents = []
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        if not line.strip():
            continue
        try:
            text = json.loads(line)["text"].encode("utf-8", errors="surrogatepass")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(
                f'{path}, line {number}, must be a JSON object with a string "text".'
            ) from error
        documents.append(Document(f"{name}:{number}", text))
    return documents

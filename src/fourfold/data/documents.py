"""Where text comes from: the user's files, or the sources of the Python that runs."""

from __future__ import annotations

import os
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from fourfold.data.reading import BadRecord, read_texts
from fourfold.data.sources import ENDINGS, find_files, printable

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
    documents = (Document(path.relative_to(root).as_posix(), path.read_bytes()) for path in paths)
    return [document for document in documents if document.text.strip()]


def read_documents(path: str | os.PathLike[str], field: str = "text") -> list[Document]:
    """Documents of a .txt, .md, .jsonl or .parquet file, or of all such files below a folder.

    Any of them may be compressed, as .txt.gz and so on. A .jsonl file holds one JSON object a line,
    each with a string ``field``, and a .parquet file a column of that name: one document a line or
    row. Empty documents are left out.

    Raises:
        FileNotFoundError: nothing is there.
        OSError: a file cannot be read.
        ValueError: a file of another kind or damaged, no document at all, or a bad line (file and
            line named).
    """
    path = Path(path)
    files = find_files([path])
    root = path.parent if path.is_file() else path
    documents = []
    for record in read_texts(files, field):
        if isinstance(record, BadRecord):
            raise ValueError(record.fault)
        text = b"".join(record.pieces)
        if text.strip():
            name = printable(record.file.relative_to(root).as_posix())
            number = "" if record.number is None else f":{record.number}"
            documents.append(Document(name + number, text))
    if not documents:
        raise ValueError(f"{path} holds no text in files that end in {ENDINGS}.")
    return documents

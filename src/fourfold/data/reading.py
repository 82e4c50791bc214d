"""Texts of files, one after another, without ever holding more than a piece or a record."""

from __future__ import annotations

import json
import shutil
import tempfile
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from fourfold.data.sources import COMPRESSIONS, faults_named, kind_of, opened, printable

PIECE = 1 << 20
"""Bytes of a file of one text that are read at once."""

ROWS = 128
"""Rows of a .parquet file that are read at once."""


@dataclass(frozen=True)
class Text:
    """A document as it stands in a file, UTF-8 or what should be.

    Attributes:
        file: where.
        number: the line or row, from 1; None for a file that is one document.
        pieces: its bytes; to be read before the next text is asked for.
    """

    file: Path
    number: int | None
    pieces: Iterator[bytes]

    def sentence(self, words: str) -> str:
        """Which text, and then ``words`` about it."""
        name = printable(str(self.file))
        if self.number is None:
            return f"{name} {words}"
        record = "row" if kind_of(self.file) == ".parquet" else "line"
        return f"{name}, {record} {self.number}, {words}"


@dataclass(frozen=True)
class BadRecord:
    """A line or row that holds no text; ``fault`` says so in a sentence that names the place."""

    fault: str


def read_texts(files: Iterable[Path], field: str = "text") -> Iterator[Text | BadRecord]:
    """The texts of ``files`` as a stream, in order; a file without any gives one empty text.

    Args:
        field: of a .jsonl object and column of a .parquet table that hold the text.

    Raises:
        OSError: a file cannot be read.
        ValueError: a file is damaged or cut off, or a table has no such column of strings.
    """
    for file in files:
        kind = kind_of(file)
        if kind == ".jsonl":
            yield from _lines(file, field)
        elif kind == ".parquet":
            yield from _rows(file, field)
        else:
            with opened(file) as stream:
                yield Text(file, None, _pieces(file, stream))


def _pieces(path: Path, stream: IO[bytes]) -> Iterator[bytes]:
    """All of a file but the mark that some programs put before UTF-8, which is no text."""
    with faults_named(path):
        piece = stream.read(PIECE).removeprefix(BOM_UTF8)
        while piece:
            yield piece
            piece = stream.read(PIECE)


def _lines(path: Path, field: str) -> Iterator[Text | BadRecord]:
    empty = True
    with opened(path) as stream:
        for number, line in enumerate(stream, start=1):
            if line.isspace():
                continue
            empty = False
            try:
                text = json.loads(line)[field].encode("utf-8", errors="surrogatepass")
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                yield _bad(path, number, f'must be a JSON object with a string "{field}".')
            else:
                yield Text(path, number, iter((text,)))
    if empty:
        yield Text(path, None, iter(()))


def _rows(path: Path, field: str) -> Iterator[Text | BadRecord]:
    import pyarrow
    import pyarrow.parquet

    number = 0
    with opened(path, pyarrow.ArrowException) as stream:
        table = pyarrow.parquet.ParquetFile(_seekable(path, stream))
        _check_column(path, table.schema_arrow, field)
        for batch in table.iter_batches(batch_size=ROWS, columns=[field]):
            # As bytes: a text that is no UTF-8 is one bad record, not the end of the file.
            column = batch.column(0).cast(pyarrow.large_string()).cast(pyarrow.large_binary())
            for text in column.to_pylist():
                number += 1
                if text is None:
                    yield _bad(path, number, f'must hold a string in its column "{field}".')
                else:
                    yield Text(path, number, iter((text,)))
    if not number:
        yield Text(path, None, iter(()))


def _bad(path: Path, number: int, words: str) -> BadRecord:
    return BadRecord(Text(path, number, iter(())).sentence(words))


def _seekable(path: Path, stream: IO[bytes]) -> IO[bytes]:
    """A table is read from its end; one that is compressed as a whole is unpacked to disk."""
    if path.suffix.lower() not in COMPRESSIONS:
        return stream
    unpacked = tempfile.TemporaryFile()  # noqa: SIM115  goes when the table does
    shutil.copyfileobj(stream, unpacked, PIECE)
    unpacked.seek(0)
    return unpacked


def _check_column(path: Path, schema: Any, field: str) -> None:
    import pyarrow.types as types

    name = printable(str(path))
    if field not in schema.names:
        raise ValueError(f"{name} has no column {field!r}; it has {', '.join(schema.names)}.")
    kind = schema.field(field).type
    kind = kind.value_type if types.is_dictionary(kind) else kind
    is_text = (types.is_string, types.is_large_string, types.is_string_view)
    if not any(check(kind) for check in is_text):
        raise ValueError(f"Column {field!r} of {name} must hold strings; it holds {kind}.")

"""A data set of the Hugging Face hub, or of a folder in its form, as a stream of texts."""

from __future__ import annotations

import hashlib
import json
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fourfold.data.entry import DatasetEntry
from fourfold.data.survey import Skipped


class HubDataset:
    """Opens a data set without reading it.

    Attributes:
        entry: which.
        identity: SHA-256 of its files' names and versions.

    Raises:
        OSError: there is none of that name, or it cannot be reached.
        ValueError: it has no such configuration, split or column.
    """

    def __init__(self, entry: DatasetEntry) -> None:
        from datasets import load_dataset_builder

        self.entry = entry
        with _faults_named(entry):
            builder = load_dataset_builder(entry.name, entry.config)
            self._stream = builder.as_streaming_dataset(split=entry.split)
        columns = self._stream.column_names
        if columns is not None:  # some forms tell only when they are read
            if entry.text not in columns:
                raise ValueError(
                    f"The data set {entry.name} has no column {entry.text!r}; it has "
                    f"{', '.join(columns)}."
                )
            self._stream = self._stream.select_columns([entry.text])
        self.identity = _identity(entry, builder.config.data_files or {})

    def texts(
        self, *, rank: int, world_size: int, order: int = 0, state: dict[str, Any] | None = None
    ) -> HubTexts:
        """The texts that are this process's share.

        Args:
            rank, world_size: the process, and how many share the data set.
            order: 0 takes its files as they stand, other numbers each in an order of their own.
            state: of a stream of the same share and order, to go on after it.
        """
        from datasets.distributed import split_dataset_by_node

        # A new object, so that its state is its own.
        stream = split_dataset_by_node(self._stream, rank=rank, world_size=world_size)
        stream.set_epoch(order)
        if state is not None:
            stream.load_state_dict(state)
        return HubTexts(stream, self.entry)


class HubTexts(Iterator[Any]):
    """What stands in the column, record after record; strings, if all is well."""

    def __init__(self, stream: Any, entry: DatasetEntry) -> None:
        self._stream, self._entry = stream, entry
        self._records = iter(stream)
        # At the end of the process too, while the readers' modules are still there.
        weakref.finalize(self, self._records.close)

    def __next__(self) -> Any:
        with _faults_named(self._entry):
            record = next(self._records, None)
        if record is None:
            raise StopIteration
        return record.get(self._entry.text)

    def state(self) -> dict[str, Any]:
        """How far it has come; JSON can hold it."""
        state: dict[str, Any] = self._stream.state_dict()
        return state


def usable_text(record: Any, place: str, bad: Skipped, empty: Skipped) -> bytes | None:
    """What stands in a column as UTF-8; None, and counted, if it is no text or an empty one."""
    try:
        text: bytes = record.encode()
    except (AttributeError, UnicodeEncodeError):  # a lone surrogate has no UTF-8
        bad.add(f"{place} holds no text.")
        return None
    if not text.strip():
        empty.add(f"{place} is empty.")
        return None
    return text


@contextmanager
def _faults_named(entry: DatasetEntry) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # the hub, its file systems and readers raise kinds of their own
        kind = OSError if isinstance(error, OSError) else ValueError
        reason = " ".join(str(error).split()) or type(error).__name__
        raise kind(f"The data set {entry.name} cannot be read: {reason}") from error


def _identity(entry: DatasetEntry, data_files: Any) -> str:
    files = {
        str(split): [
            # Of a folder here the place does not matter.
            (os.path.relpath(name, entry.name) if os.path.isdir(entry.name) else name, *version)
            for name, version in zip(found, found.origin_metadata, strict=True)
        ]
        for split, found in data_files.items()
    }
    what = [entry.config, entry.split, entry.text, files]
    if not os.path.isdir(entry.name):
        what.append(entry.name)
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()

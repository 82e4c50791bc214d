"""Texts into token stores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fourfold.data.encoding import Encoder
from fourfold.data.split import Part, Side
from fourfold.data.store_writer import StoreWriter
from fourfold.data.survey import REPORT_EVERY, Progress

BATCH = 1 << 22
"""Bytes of texts that are encoded at once; a longer text is encoded by itself, in pieces."""


def write_texts(
    parts: Iterable[Part],
    writers: Mapping[Side, StoreWriter],
    encoder: Encoder,
    *,
    total: int | None = None,
    on_progress: Progress | None = None,
) -> None:
    """Encode ``parts`` in their order, each into the store of its side.

    Args:
        total: bytes of all parts, for ``on_progress``.
    """
    batch = _Batch(writers, encoder)
    done = reported = 0
    for part in parts:
        writer = writers[part.side]
        if part.size <= BATCH:
            batch.add(part)
        else:
            batch.flush()
            for tokens in encoder.pieces(part.pieces):
                writer.append(tokens)
            writer.end_document(part.meter.size, part.meter.digest())
        done += part.meter.size
        if on_progress is not None and done - reported >= REPORT_EVERY:
            on_progress("tokenising", done, total)
            reported = done
    batch.flush()


class _Batch:
    """Short texts that wait to be encoded together."""

    def __init__(self, writers: Mapping[Side, StoreWriter], encoder: Encoder) -> None:
        self._writers, self._encoder = writers, encoder
        self._held: list[tuple[Part, bytes]] = []
        self._size = 0

    def add(self, part: Part) -> None:
        self._held.append((part, b"".join(part.pieces)))
        self._size += part.meter.size
        if self._size >= BATCH:
            self.flush()

    def flush(self) -> None:
        encoded = self._encoder.texts([text for _, text in self._held])
        for (part, _), tokens in zip(self._held, encoded, strict=True):
            writer = self._writers[part.side]
            writer.append(tokens)
            writer.end_document(part.meter.size, part.meter.digest())
        self._held, self._size = [], 0

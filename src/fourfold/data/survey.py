"""A first look at every text: its size, its hash, and whether it is one at all."""

from __future__ import annotations

import codecs
import hashlib
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fourfold.data.reading import BadRecord, read_texts
from fourfold.data.sources import printable

DIGEST = 16
"""Bytes of the hash of a text."""

REPORT_EVERY = 1 << 23
"""Bytes between two reports of progress."""

Progress = Callable[[str, int, int | None], None]
"""Called now and then with what is being done, bytes that are done, and all bytes if known."""


@dataclass
class Skipped:
    """Records that were left out: how many, and the first of them, each in a sentence."""

    KEPT = 10

    count: int = 0
    first: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> Skipped:
        """From what ``dataclasses.asdict`` made of one."""
        return cls(kept["count"], list(kept["first"]))

    def add(self, sentence: str) -> None:
        self.count += 1
        if len(self.first) < self.KEPT:
            self.first.append(sentence)


class TextMeter:
    """What is to be known of a text that is read in pieces.

    Attributes:
        size: bytes so far.
        unhashed: of these, bytes that ``digest`` leaves out: white space at the start, and the
            first of two that end a line.
        fault: the first byte, from 0, that is no UTF-8; None if there is none so far.
    """

    def __init__(self) -> None:
        self.size = self.unhashed = 0
        self.fault: int | None = None
        self._hash = hashlib.blake2b(digest_size=DIGEST)
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._begun = False
        self._return = b""
        self._space = bytearray()

    def update(self, piece: bytes) -> None:
        """Read on."""
        self._check(piece)
        self.size += len(piece)
        whole = self._return + piece
        # The next piece says whether that is half of "\r\n"; behind the last, it is white space.
        read = whole.removesuffix(b"\r")
        self._return = whole[len(read) :]
        body = _lines(read) if self._begun else _lines(read).lstrip()
        self.unhashed += len(read) - len(body)
        if not body:
            return
        self._begun = True
        text = body.rstrip()
        if text:
            self._hash.update(self._space)
            self._hash.update(text)
            self._space.clear()
        self._space += body[len(text) :]

    def finish(self) -> None:
        """There is no more: a character that is not complete is a fault."""
        self._check(b"", final=True)

    @property
    def blank(self) -> bool:
        """Whether there was nothing but white space."""
        return not self._begun

    def digest(self) -> bytes:
        """Of the text without white space at its ends, its lines ended by "\\n" whatever ends them:
        texts that differ in no more are equal."""
        return self._hash.digest()

    def _check(self, piece: bytes, final: bool = False) -> None:
        if self.fault is not None:
            return
        held = len(self._decoder.getstate()[0])
        try:
            self._decoder.decode(piece, final)
        except UnicodeDecodeError as error:
            self.fault = self.size - held + error.start


def digest_of(text: bytes) -> bytes:
    """``TextMeter.digest`` of a whole text."""
    return hashlib.blake2b(_lines(text).strip(), digest_size=DIGEST).digest()


def _lines(text: bytes) -> bytes:
    """The same lines, each ended by "\\n"."""
    return text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


@dataclass(frozen=True)
class Survey:
    """All texts of some files, in the order in which they are read.

    Attributes:
        sizes: (texts,) bytes.
        digests: (texts, DIGEST) uint8.
        unhashed: (texts,) bytes, see ``TextMeter``.
        usable: (texts,) bool; the others are empty or no UTF-8.
        bad: records that are none, or no UTF-8.
        empty: texts of white space alone.
    """

    sizes: npt.NDArray[np.int64]
    digests: npt.NDArray[np.uint8]
    unhashed: npt.NDArray[np.int64]
    usable: npt.NDArray[np.bool_]
    bad: Skipped
    empty: Skipped


def take_survey(
    files: Sequence[Path], text_field: str = "text", on_progress: Progress | None = None
) -> Survey:
    """Read all texts of ``files`` once, keeping none.

    Raises:
        OSError: a file cannot be read.
        ValueError: a file is damaged or cut off, or there is no text in any.
    """
    sizes, digests, unhashed, usable = array("q"), bytearray(), array("q"), array("b")
    bad, empty = Skipped(), Skipped()
    done = reported = 0
    for record in read_texts(files, text_field):
        if isinstance(record, BadRecord):
            bad.add(record.fault)
            continue
        meter = TextMeter()
        for piece in record.pieces:
            meter.update(piece)
        meter.finish()
        if meter.blank:
            empty.add(record.sentence("is empty."))
        elif meter.fault is not None:
            bad.add(record.sentence(f"is no UTF-8: byte {meter.fault + 1} fits nowhere."))
        sizes.append(meter.size)
        digests += meter.digest()
        unhashed.append(meter.unhashed)
        usable.append(not meter.blank and meter.fault is None)
        done += meter.size
        if on_progress is not None and done - reported >= REPORT_EVERY:
            on_progress("reading", done, None)
            reported = done
    if not any(usable):
        faults = bad.first + empty.first
        why = f" {faults[0]}" if faults else ""
        raise ValueError(f"There is no text in {_names(files)}.{why}")
    return Survey(
        sizes=np.array(sizes, dtype=np.int64),
        digests=np.frombuffer(bytes(digests), dtype=np.uint8).reshape(-1, DIGEST),
        unhashed=np.array(unhashed, dtype=np.int64),
        usable=np.array(usable, dtype=np.bool_),
        bad=bad,
        empty=empty,
    )


def _names(files: Sequence[Path]) -> str:
    more = f" and {len(files) - 3} more files" if len(files) > 3 else ""
    return ", ".join(printable(str(file)) for file in files[:3]) + more

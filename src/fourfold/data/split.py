"""Which text is for training and which for validation, so that none is for both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fourfold.data.reading import BadRecord, Text, read_texts
from fourfold.data.survey import DIGEST, Survey, TextMeter


class Side(IntEnum):
    """Where a text goes."""

    NOWHERE = 0
    TRAIN = 1
    VALIDATION = 2
    CUT = 3
    """Its start to training, its end to validation."""
    SHORTENED = 4
    """Its start to training, its end nowhere: another text like it is CUT."""


@dataclass(frozen=True)
class Split:
    """Where all texts go.

    Attributes:
        sides: (texts,) of ``Side``.
        start, shortened: bytes that training has of the text CUT, and of those SHORTENED.
    """

    sides: npt.NDArray[np.int8]
    start: int = 0
    shortened: int = 0


def all_to(side: Side, survey: Survey) -> Split:
    """Every usable text to one side."""
    return Split(np.where(survey.usable, side, Side.NOWHERE).astype(np.int8))


def leave_out(survey: Survey, digests: npt.NDArray[np.uint8]) -> Split:
    """Every usable text to training, but for those whose text is among ``digests``."""
    known = np.isin(_keys(survey.digests), _keys(digests))
    return Split(np.where(survey.usable & ~known, Side.TRAIN, Side.NOWHERE).astype(np.int8))


def hold_back(survey: Survey, share: float) -> Split:
    """``share`` of the bytes to validation; which, only the texts decide.

    Texts are taken in the order of their hashes until they hold so much, equal ones together, but
    for any that would bring it over twice that. If those that are small enough do not hold half of
    it, what is missing is cut off the end of the longest of the others. Names, order and number of
    files do not matter.

    Raises:
        ValueError: there is too little text for two sides.
    """
    usable = np.flatnonzero(survey.usable)
    keys = _keys(survey.digests[usable])
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.r_[True, keys[order][1:] != keys[order][:-1]])
    sizes = np.add.reduceat(survey.sizes[usable][order], starts)
    total = int(sizes.sum())
    sides = all_to(Side.TRAIN, survey).sides
    held = 0
    for size, group in zip(sizes.tolist(), _groups(usable[order], starts), strict=True):
        if held >= share * total:
            break
        if held + size <= 2 * share * total and held + size < total:
            sides[group] = Side.VALIDATION
            held += size
    if held >= share * total / 2:
        return Split(sides)
    split = _cut(survey, sides, share * total - held)
    if split is None and not held:
        raise ValueError(
            f"{total} bytes of text are too little to hold some back for validation; give "
            "more text, or, in a recipe, validation files."
        )
    return split or Split(sides)


def held_bytes(survey: Survey, split: Split) -> int:
    """How much is for validation, but for the rest of a character that is cut."""
    cut = survey.sizes[split.sides == Side.CUT] - split.start
    return int(survey.sizes[split.sides == Side.VALIDATION].sum() + cut.sum())


def _cut(survey: Survey, sides: npt.NDArray[np.int8], wanted: float) -> Split | None:
    """``sides`` with the longest text of training cut for ``wanted`` bytes of validation; None if
    it is too short for that."""
    longest = int(np.argmax(np.where(sides == Side.TRAIN, survey.sizes, 0)))
    alike = np.flatnonzero((survey.digests == survey.digests[longest]).all(1) & survey.usable)
    # They may differ in white space and in the ends of lines: what is cut off the shortest, the
    # others must not hold either, whatever of their bytes is none of the text.
    shortest = int(alike[np.argmin(survey.sizes[alike])])
    # The last four bytes of UTF-8 hold the start of a character, where it can be cut.
    start = int(survey.sizes[shortest]) - max(4, int(wanted / len(alike)))
    if start < 1:
        return None
    shortened = start - int(survey.unhashed[shortest])
    sides = sides.copy()
    sides[alike] = Side.SHORTENED if shortened > 0 else Side.NOWHERE
    sides[shortest] = Side.CUT
    return Split(sides, start, shortened)


def _keys(digests: npt.NDArray[np.uint8]) -> npt.NDArray[np.bytes_]:
    """(texts,), one value a digest, which can be sorted and compared."""
    return np.ascontiguousarray(digests).view(f"S{DIGEST}").reshape(-1)


def _groups(
    order: npt.NDArray[np.int64], starts: npt.NDArray[np.int64]
) -> Iterator[npt.NDArray[np.int64]]:
    for start, stop in zip(starts, [*starts[1:], len(order)], strict=True):
        yield order[start:stop]


@dataclass
class Part:
    """A text, or a part of one, on its way to a side.

    Attributes:
        side: TRAIN or VALIDATION.
        size: bytes that were planned; a character's rest may have gone from one part to the other.
        pieces: its bytes; what is not read of them is passed over.
        meter: knows size and hash, once all pieces are read.
    """

    side: Side
    size: int
    pieces: Iterator[bytes]
    meter: TextMeter


def parts(files: Sequence[Path], text_field: str, survey: Survey, split: Split) -> Iterator[Part]:
    """Read the texts of ``files`` again, each on its way to the side that ``split`` says.

    Raises:
        OSError, ValueError: a file can no longer be read, or is not what ``survey`` saw.
    """
    number = -1
    for record in read_texts(files, text_field):
        if isinstance(record, BadRecord):
            continue
        number += 1
        if number == len(survey.sizes):
            raise _changed(record)
        side, size = Side(split.sides[number]), int(survey.sizes[number])
        if side == Side.NOWHERE:
            continue
        if side in (Side.CUT, Side.SHORTENED):
            place = split.start if side == Side.CUT else split.shortened
            start, end = _divided(record.pieces, place)
            found = [
                part_of(Side.TRAIN, place, start),
                part_of(Side.VALIDATION, size - place, end),
            ]
            given = found if side == Side.CUT else found[:1]
        else:
            given = found = [part_of(side, size, record.pieces)]
        yield from given
        for part in found:
            for _ in part.pieces:
                pass
        if sum(part.meter.size for part in found) != size or (
            len(found) == 1 and found[0].meter.digest() != survey.digests[number].tobytes()
        ):
            raise _changed(record)
    if number + 1 != len(survey.sizes):
        raise ValueError(f"Text is gone from {files[0].parent} while it was read; start again.")


def part_of(side: Side, size: int, pieces: Iterable[bytes]) -> Part:
    """A part whose pieces are measured as they are read."""
    meter = TextMeter()
    return Part(side, size, _measured(pieces, meter), meter)


def _measured(pieces: Iterable[bytes], meter: TextMeter) -> Iterator[bytes]:
    for piece in pieces:
        meter.update(piece)
        yield piece


def _divided(pieces: Iterator[bytes], place: int) -> tuple[Iterator[bytes], Iterator[bytes]]:
    """The pieces before and from ``place``, or the next character's start; read in that order."""
    rest: list[bytes] = []

    def start() -> Iterator[bytes]:
        left = place
        for piece in pieces:
            if len(piece) <= left:
                left -= len(piece)
                yield piece
                continue
            while left < len(piece) and piece[left] & 0xC0 == 0x80:
                left += 1
            yield piece[:left]
            if left < len(piece):
                rest.append(piece[left:])
                return
            left = 0

    def end() -> Iterator[bytes]:
        yield from rest
        yield from pieces

    return start(), end()


def _changed(text: Text) -> ValueError:
    return ValueError(text.sentence("changed while it was read; start again."))

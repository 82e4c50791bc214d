"""``fourfold tokenizer train``: a BPE of the user's text, and how it does on text held back."""

from __future__ import annotations

import codecs
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from transformers import PreTrainedTokenizerFast

from fourfold.cli.common import console, say
from fourfold.data.bpe import check_size, train_bpe
from fourfold.data.encoding import encoder_of
from fourfold.data.report import below_share
from fourfold.data.sources import find_files, printable
from fourfold.data.split import Side, Split, held_bytes, hold_back, parts
from fourfold.data.survey import Survey, take_survey
from fourfold.files import sync_file, sync_folder

HELD_BACK = 0.02
"""Of the bytes; the default of a recipe's validation, so that it holds back the same."""

SAMPLE = 1 << 22
"""Bytes of what is held back that are tried, and a little more."""


def train_tokenizer(paths: Sequence[Path], *, vocab_size: int, out: Path, text_field: str) -> None:
    """Train, save in ``out``, and print what came out.

    Raises:
        OSError, ValueError: text that cannot be read or is too little; a folder that is not empty.
    """
    check_size(vocab_size)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"out must be a new or an empty folder; {out} holds something.")
    files = find_files(paths)
    with console.status("Reading the text …"):
        survey = take_survey(files, text_field)
        split = hold_back(survey, HELD_BACK)
    text = _Text(files, text_field, survey, split)
    with console.status("Training …"):
        tokenizer = train_bpe(text.for_training(), vocab_size)
    size = tokens = 0
    encoder = encoder_of(tokenizer)
    for sample in text.held_back():
        size += len(sample)
        tokens += len(encoder.texts([sample])[0])
    _save(tokenizer, out)
    lines = [
        f"{len(tokenizer):,} entries, {size / tokens:.2f} bytes a token on {size:,} bytes that "
        "were held back.",
        f"Saved in {printable(str(out))}",
    ]
    if len(tokenizer) < vocab_size:
        lines.insert(0, f"The text has no pairs left to join for {vocab_size:,} entries.")
    if survey.bad.count:
        lines.insert(0, f"Left out: {survey.bad.count:,} bad records; first: {survey.bad.first[0]}")
    held, total = held_bytes(survey, split), int(survey.sizes[survey.usable].sum())
    say(*lines, *below_share(held, total, HELD_BACK))


class _Text:
    """Both sides of a split as streams."""

    def __init__(
        self, files: Sequence[Path], text_field: str, survey: Survey, split: Split
    ) -> None:
        self._what = files, text_field, survey, split

    def for_training(self) -> Iterator[str]:
        for part in parts(*self._what):
            if part.side == Side.TRAIN:
                decoder = codecs.getincrementaldecoder("utf-8")()
                for piece in part.pieces:
                    yield decoder.decode(piece)

    def held_back(self) -> Iterator[bytes]:
        """Texts of SAMPLE bytes in all, and a piece more; the last one may be cut."""
        left = SAMPLE
        for part in parts(*self._what):
            if part.side == Side.VALIDATION:
                held = b""
                while left > 0 and (piece := next(part.pieces, None)) is not None:
                    held += piece
                    left -= len(piece)
                yield held.decode(errors="ignore").encode()  # without the character that was cut
            if left <= 0:
                return


def _save(tokenizer: PreTrainedTokenizerFast, out: Path) -> None:
    """All of it or nothing."""
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = out.parent / f".{out.name}-{secrets.token_hex(4)}.tmp"
    try:
        tokenizer.save_pretrained(temporary)
        for path in temporary.iterdir():
            sync_file(path)
        if out.exists():
            out.rmdir()
        os.rename(temporary, out)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    sync_folder(out.parent)

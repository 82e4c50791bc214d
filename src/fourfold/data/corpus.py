"""Text split into training and validation, as one stream of byte tokens each."""

from __future__ import annotations

import hashlib
import os
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from fourfold.data.report import below_share, left_out
from fourfold.data.sources import find_files, printable
from fourfold.data.split import Side, held_bytes, hold_back, parts
from fourfold.data.survey import take_survey
from fourfold.models.tokenizer import EOS

END_OF_TEXT = EOS
"""``ByteTokenizer``'s <|eos|>, which stands after every document."""

VALIDATION_SHARE = 0.05

_NOT_LIBRARY = frozenset({"__pycache__", "idle_test", "site-packages", "test", "tests"})


@dataclass(frozen=True)
class Corpus:
    """Two streams that share no text.

    Attributes:
        name: where the text came from.
        train, validation: (tokens,) int16; bytes, and END_OF_TEXT after each document.
        train_documents, validation_documents: how many.
        notes: sentences about records that are no text, or empty, and about too little validation.
    """

    name: str
    train: Tensor
    validation: Tensor
    train_documents: int
    validation_documents: int
    notes: Sequence[str] = ()

    def fingerprint(self) -> str:
        """SHA-256 of both streams."""
        digest = hashlib.sha256(self.train.numpy().tobytes())
        digest.update(b"validation" + self.validation.numpy().tobytes())
        return digest.hexdigest()


def load_corpus(path: str | os.PathLike[str] | None = None) -> Corpus:
    """The user's text at ``path``, or the standard library's sources, split as ``hold_back`` says.

    Raises:
        OSError: text cannot be read.
        ValueError: text is damaged, missing or too short to split.
    """
    if path is None:
        name, files = "Python standard library", standard_library()
    else:
        name, files = printable(str(path)), find_files([path])
    survey = take_survey(files)
    split = hold_back(survey, VALIDATION_SHARE)
    texts: dict[Side, list[bytes]] = {Side.TRAIN: [], Side.VALIDATION: []}
    for part in parts(files, "text", survey, split):
        texts[part.side].append(b"".join(part.pieces))
    train, validation = texts[Side.TRAIN], texts[Side.VALIDATION]
    return Corpus(
        name=name,
        train=tokens_of(train),
        validation=tokens_of(validation),
        train_documents=len(train),
        validation_documents=len(validation),
        notes=[
            *left_out(survey.bad, survey.empty),
            *below_share(
                held_bytes(survey, split),
                int(survey.sizes[survey.usable].sum()),
                VALIDATION_SHARE,
            ),
        ],
    )


def standard_library() -> list[Path]:
    """The modules of Python's standard library, without their tests: code and English.

    Names and phrases come back again and again there, which is what a memory is for; and it is on
    every machine that runs this, with nothing to download.
    """
    root = Path(sysconfig.get_paths()["stdlib"])
    return [
        path
        for path in sorted(root.rglob("*.py"))
        if not _NOT_LIBRARY.intersection(path.relative_to(root).parts) and path.stat().st_size
    ]


def tokens_of(texts: Sequence[bytes]) -> Tensor:
    """One stream of byte tokens, each text followed by END_OF_TEXT: (tokens,) int16."""
    end = torch.tensor([END_OF_TEXT], dtype=torch.int16)
    found = []
    for text in texts:
        found += [torch.frombuffer(bytearray(text), dtype=torch.uint8).short(), end]
    return torch.cat(found)

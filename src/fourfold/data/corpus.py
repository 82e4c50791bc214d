"""Documents split into training and validation, as one stream of byte tokens each."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fourfold.data.documents import Document, read_documents, standard_library
from fourfold.data.sources import printable
from fourfold.models.tokenizer import EOS

END_OF_TEXT = EOS
"""``ByteTokenizer``'s <|eos|>, which stands after every document."""

VALIDATION_SHARE = 0.05


@dataclass(frozen=True)
class Corpus:
    """Two streams that share no document.

    Attributes:
        name: where the text came from.
        train, validation: (tokens,) int16; bytes, and END_OF_TEXT after each document.
        train_documents, validation_documents: their names.
    """

    name: str
    train: Tensor
    validation: Tensor
    train_documents: list[str]
    validation_documents: list[str]

    def fingerprint(self) -> str:
        """SHA-256 of both streams."""
        digest = hashlib.sha256(self.train.numpy().tobytes())
        digest.update(b"validation" + self.validation.numpy().tobytes())
        return digest.hexdigest()


def load_corpus(path: str | os.PathLike[str] | None = None) -> Corpus:
    """The user's text at ``path``, or the standard library's sources.

    Raises:
        FileNotFoundError, ValueError: as ``read_documents``; or too little text to split.
    """
    if path is None:
        name, documents = "Python standard library", standard_library()
    else:
        name, documents = printable(str(path)), read_documents(path)
    train, validation = split(documents)
    return Corpus(
        name=name,
        train=tokens_of(train),
        validation=tokens_of(validation),
        train_documents=[document.name for document in train],
        validation_documents=[document.name for document in validation],
    )


def split(documents: Sequence[Document]) -> tuple[list[Document], list[Document]]:
    """Training and validation documents; which is which depends on names and sizes alone.

    Validation takes documents in the order of a hash of their names until it holds 5 % of the
    bytes, leaving out any that would bring it over 10 %. If none is small enough, the end of the
    largest is cut off for it.

    Raises:
        ValueError: no two bytes to split.
    """
    ordered = sorted(documents, key=lambda x: hashlib.sha256(x.name.encode()).digest())
    total = sum(len(document.text) for document in ordered)
    train: list[Document] = []
    validation: list[Document] = []
    held = 0
    for document in ordered:
        size = len(document.text)
        if held < VALIDATION_SHARE * total and held + size <= 2 * VALIDATION_SHARE * total:
            validation.append(document)
            held += size
        else:
            train.append(document)
    if validation:
        return train, validation

    largest = max(train, key=lambda document: len(document.text))
    cut = len(largest.text) - max(1, int(VALIDATION_SHARE * total))
    if cut < 1:
        raise ValueError(f"{largest.name} is too short to split into training and validation.")
    start = Document(f"{largest.name} (start)", largest.text[:cut])
    end = Document(f"{largest.name} (end)", largest.text[cut:])
    return [start if document is largest else document for document in train], [end]


def tokens_of(documents: Sequence[Document]) -> Tensor:
    """One stream of byte tokens, each document followed by END_OF_TEXT: (tokens,) int16."""
    end = torch.tensor([END_OF_TEXT], dtype=torch.int16)
    parts = []
    for document in documents:
        parts += [torch.frombuffer(bytearray(document.text), dtype=torch.uint8).short(), end]
    return torch.cat(parts)

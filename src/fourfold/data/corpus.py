"""Documents split into training and validation, as one stream of byte tokens each."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fourfold.data.documents import Document, read_documents, standard_library

END_OF_TEXT = 258
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


def load_corpus(path: str | os.PathLike[str] | None = None) -> Corpus:
    """The user's text at ``path``, or the standard library's sources.

    Raises:
        FileNotFoundError, ValueError: as ``read_documents``; or too little text to split.
    """
    if path is None:
        name, documents = "Python standard library", standard_library()
    else:
        name, documents = str(path), read_documents(path)
    train, validation = split(documents)
    return Corpus(
        name=name,
        train=tokens_of(train),
        validation=tokens_of(validation),
        train_documents=[document.name for document in train],
        validation_documents=[document.name for document in validation],
    )


def split(documents: Sequence[Document]) -> tuple[list[Document], list[Document]]:
    """Training and validation documents; which is which depends on names alone.

    Documents go to validation in the order of a hash of their names until it holds 5 % of the
    bytes. A single document is cut: its last 5 % are for validation.

    Raises:
        ValueError: no two characters to split.
    """
    if len(documents) == 1:
        (document,) = documents
        cut = int(len(document.text) * (1 - VALIDATION_SHARE))
        if not 0 < cut < len(document.text):
            raise ValueError(f"{document.name} is too short to split.")
        return (
            [Document(f"{document.name} (start)", document.text[:cut])],
            [Document(f"{document.name} (end)", document.text[cut:])],
        )
    ordered = sorted(documents, key=lambda x: hashlib.sha256(x.name.encode()).digest())
    wanted = VALIDATION_SHARE * sum(len(document.text) for document in ordered)
    validation: list[Document] = []
    while len(ordered) > 1 and sum(len(document.text) for document in validation) < wanted:
        validation.append(ordered.pop(0))
    return ordered, validation


def tokens_of(documents: Sequence[Document]) -> Tensor:
    """One stream of byte tokens, each document followed by END_OF_TEXT: (tokens,) int16."""
    end = torch.tensor([END_OF_TEXT], dtype=torch.int16)
    parts = []
    for document in documents:
        parts += [torch.frombuffer(bytearray(document.text), dtype=torch.uint8).short(), end]
    return torch.cat(parts)

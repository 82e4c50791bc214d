"""Documents as tokens on disk, read by mapping the file into memory."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field
from safetensors import SafetensorError
from safetensors.numpy import load

from fourfold.data.survey import DIGEST
from fourfold.settings import Section, validated

VERSION = 1
TOKENS, INDEX, DESCRIPTION = "tokens.bin", "index.safetensors", "store.json"


class Description(Section):
    """What store.json says.

    Attributes:
        version: of the format.
        tokenizer: SHA-256 of the one that made the tokens.
        end_of_text: the token after each document.
        dtype: of tokens.bin, little endian.
        documents, tokens, bytes: how many; tokens with the ends of text, bytes of text without.
        index: SHA-256 of index.safetensors.
        fingerprint: SHA-256 of all that the documents are, whatever ``about`` says.
        about: where the text came from and what was left out, as the builder tells it.
    """

    version: int
    tokenizer: str
    end_of_text: int = Field(ge=0)
    dtype: Literal["uint16", "uint32"]
    documents: int = Field(ge=1)
    tokens: int = Field(ge=1)
    bytes: int = Field(ge=0)
    index: str
    fingerprint: str
    about: dict[str, Any]


class TokenStore:
    """Documents, each as its tokens and the end of text.

        STORE/tokens.bin           all tokens, one document after another
        STORE/index.safetensors    offsets (documents + 1,) int64, of tokens; sizes (documents,)
                                   int64, bytes of text; digests (documents, 16) uint8
        STORE/store.json           see ``Description``

    Args:
        folder: STORE, as ``StoreWriter`` left it.

    Raises:
        FileNotFoundError: there is no such folder.
        ValueError: it holds no store, or one that is damaged, cut off, or of another version.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self._description = self._read_description()
        index = self._read_index()
        self._offsets, self._sizes = index["offsets"], index["sizes"]
        self.digests: npt.NDArray[np.uint8] = index["digests"]
        self._tokens = self._map_tokens()

    def __len__(self) -> int:
        return self._description.documents

    def length(self, document: int) -> int:
        """Tokens of a document, the end of text included."""
        self._check(document)
        return int(self._offsets[document + 1] - self._offsets[document])

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """(documents,) ``length`` of each."""
        return np.diff(self._offsets)

    def tokens(self, document: int, start: int, stop: int) -> npt.NDArray[np.int64]:
        """Its tokens from ``start`` to before ``stop``; the end of text is the last of all.

        Raises:
            IndexError: there is no such document.
            ValueError: not 0 <= start <= stop <= length.
        """
        length = self.length(document)
        if not 0 <= start <= stop <= length:
            raise ValueError(
                f"start and stop must lie in order from 0 to {length}, the length of document "
                f"{document}; got {start} and {stop}."
            )
        offset = int(self._offsets[document])
        return self._tokens[offset + start : offset + stop].astype(np.int64)

    def bytes(self, document: int) -> int:
        """Bytes of its text."""
        self._check(document)
        return int(self._sizes[document])

    @property
    def total_tokens(self) -> int:
        """Of all documents, with the ends of text."""
        return self._description.tokens

    @property
    def total_bytes(self) -> int:
        """Of all texts."""
        return self._description.bytes

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the tokenizer and of all documents in their order."""
        return self._description.fingerprint

    @property
    def about(self) -> dict[str, Any]:
        """What the builder said about the text."""
        return self._description.about

    def _check(self, document: int) -> None:
        if not 0 <= document < len(self):
            raise IndexError(f"There are documents 0 to {len(self) - 1}; got {document}.")

    def _read_description(self) -> Description:
        if not self.folder.is_dir():
            raise FileNotFoundError(f"{self.folder} does not exist.")
        path = self.folder / DESCRIPTION
        if not path.exists():
            raise ValueError(f"{self.folder} holds no tokens: {DESCRIPTION} is missing.")
        try:
            content = json.loads(path.read_bytes())
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path} is damaged: it is no JSON.") from error
        if not isinstance(content, dict):
            raise ValueError(f"{path} is damaged: it holds no mapping.")
        if content.get("version") != VERSION:
            raise ValueError(
                f"{self.folder} is of version {content.get('version')}; this fourfold reads "
                f"version {VERSION}."
            )
        return validated(Description, content, str(path))

    def _read_index(self) -> dict[str, npt.NDArray[Any]]:
        path = self.folder / INDEX
        data = path.read_bytes() if path.exists() else b""
        if hashlib.sha256(data).hexdigest() != self._description.index:
            raise ValueError(f"{path} is damaged: its SHA-256 is not the one in {DESCRIPTION}.")
        documents = len(self)
        shapes = {
            "offsets": (documents + 1,),
            "sizes": (documents,),
            "digests": (documents, DIGEST),
        }
        try:
            index: dict[str, npt.NDArray[Any]] = load(data)
        except SafetensorError as error:
            raise ValueError(f"{path} is damaged: {error}.") from error
        if {name: array.shape for name, array in index.items()} != shapes:
            raise ValueError(f"{path} does not hold the {documents} documents of {DESCRIPTION}.")
        offsets = index["offsets"]
        if (
            offsets[0] != 0
            or offsets[-1] != self.total_tokens
            or (np.diff(offsets) < 1).any()
            or index["sizes"].sum() != self.total_bytes
        ):
            raise ValueError(f"{path} does not fit the counts in {DESCRIPTION}.")
        return index

    def _map_tokens(self) -> npt.NDArray[Any]:
        path = self.folder / TOKENS
        dtype = np.dtype(self._description.dtype).newbyteorder("<")
        size = path.stat().st_size if path.exists() else 0
        if size != self.total_tokens * dtype.itemsize:
            raise ValueError(
                f"{path} is damaged or cut off: it has {size} bytes; {self.total_tokens} tokens "
                f"take {self.total_tokens * dtype.itemsize}."
            )
        return np.memmap(path, dtype=dtype, mode="r")

"""Writing a token store so that it is there whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from array import array
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save

from fourfold.data.store import DESCRIPTION, INDEX, TOKENS, VERSION, Description, TokenStore
from fourfold.data.survey import DIGEST
from fourfold.files import sync_file, sync_folder

TEMPORARY = ".tmp"
"""How the names of folders end that are not whole yet."""


class StoreWriter:
    """Takes the tokens of one document after another, to a folder that gets its name at the end.

    Until ``commit`` everything lies in a hidden folder beside; leaving the ``with`` block without
    it removes that. A process that is killed leaves the hidden folder, which nothing reads. Two
    that write the same both end well: the one that comes second takes what it finds.

    Args:
        folder: of the store; those above it are made.
        tokenizer: SHA-256 of the tokenizer.
        vocabulary: tokens are below it; up to 65,536 take two bytes each, more take four.
        end_of_text: the token that is put after each document.

    Raises:
        OSError: the folder cannot be written or the disk is full; nothing is left of it.
    """

    def __init__(self, folder: Path, *, tokenizer: str, vocabulary: int, end_of_text: int) -> None:
        self.folder = folder
        self._tokenizer = tokenizer
        self._dtype: Literal["uint16", "uint32"] = "uint16" if vocabulary <= 1 << 16 else "uint32"
        self._end = end_of_text
        self._offsets, self._sizes, self._digests = array("q", [0]), array("q"), bytearray()
        self._written = 0
        name = f".{folder.name}-{os.getpid()}-{secrets.token_hex(4)}{TEMPORARY}"
        self._temporary: Path | None = folder.parent / name
        with self._faults_named():
            self._temporary.mkdir(parents=True)
            self._file = open(self._temporary / TOKENS, "wb", buffering=1 << 20)  # noqa: SIM115

    def __len__(self) -> int:
        """Documents that are complete."""
        return len(self._sizes)

    def append(self, tokens: npt.NDArray[Any]) -> None:
        """The next tokens of the document, (tokens,) integers."""
        with self._faults_named():
            self._file.write(tokens.astype(np.dtype(self._dtype).newbyteorder("<")).data)
        self._written += len(tokens)

    def end_document(self, size: int, digest: bytes) -> None:
        """The document is complete: ``size`` bytes of text with that hash."""
        self.append(np.array([self._end]))
        self._offsets.append(self._written)
        self._sizes.append(size)
        self._digests += digest

    def commit(self, about: dict[str, Any]) -> TokenStore:
        """Bring everything to the disk and give the folder its name; then open it.

        Args:
            about: what is to be known of the text; JSON can hold it.

        Raises:
            OSError: it does not get there.
            ValueError: no document has a token.
        """
        assert self._temporary is not None
        assert self._sizes, "a store holds at least one document"
        if self._written == len(self._sizes):
            raise ValueError("The tokenizer makes no token of any of these texts.")
        index = save(
            {
                "offsets": np.array(self._offsets, dtype=np.int64),
                "sizes": np.array(self._sizes, dtype=np.int64),
                "digests": np.frombuffer(bytes(self._digests), np.uint8).reshape(-1, DIGEST),
            }
        )
        description = Description(
            version=VERSION,
            tokenizer=self._tokenizer,
            end_of_text=self._end,
            dtype=self._dtype,
            documents=len(self._sizes),
            tokens=self._written,
            bytes=sum(self._sizes),
            index=hashlib.sha256(index).hexdigest(),
            fingerprint=self._fingerprint(index),
            about=about,
        )
        with self._faults_named():
            self._file.close()
            (self._temporary / INDEX).write_bytes(index)
            (self._temporary / DESCRIPTION).write_text(json.dumps(description.model_dump()))
            for name in (TOKENS, INDEX, DESCRIPTION):
                sync_file(self._temporary / name)
            sync_folder(self._temporary)
            try:
                os.rename(self._temporary, self.folder)
            except OSError:
                if not self.folder.is_dir():
                    raise
                self.discard()
            sync_folder(self.folder.parent)
        self._temporary = None
        return TokenStore(self.folder)

    def discard(self) -> None:
        """Remove what was written, if it has not been committed."""
        with suppress(OSError):  # what is left in the buffer may have no room on the disk
            self._file.close()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None

    @contextmanager
    def _faults_named(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OSError(f"{self.folder} cannot be written: {error.strerror}.") from error

    def _fingerprint(self, index: bytes) -> str:
        what = f"{VERSION} {self._tokenizer} {self._end} ".encode()
        return hashlib.sha256(what + index).hexdigest()

    def __enter__(self) -> StoreWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.discard()

"""The session file: safetensors, with a checksum over every byte of it.

The checksum is a SHA-256 of the whole file in which its own 64 digits read as zeros. It stands in
the file's metadata, so any safetensors reader can open a session.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from fourfold.files import write_atomically

FORMAT = "fourfold-session"
VERSION = "1"
_UNSIGNED = "0" * 64


def write_session_file(
    path: str | os.PathLike[str], tensors: dict[str, Tensor], description: str
) -> None:
    """Write ``tensors`` and a ``description`` in JSON; replaces ``path`` atomically.

    Raises:
        OSError: nothing could be written; a file that stood there is as before.
    """
    metadata = {
        "format": FORMAT,
        "format_version": VERSION,
        "description": description,
        "checksum": _UNSIGNED,
    }
    on_cpu = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    data = safetensors.torch.save(on_cpu, metadata)
    unsigned = _checksum_field(_UNSIGNED)
    assert data.count(unsigned) == 1, "quotes inside the description are escaped"
    write_atomically(
        path, data.replace(unsigned, _checksum_field(hashlib.sha256(data).hexdigest()))
    )


def read_session_file(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], str]:
    """The tensors and the description in JSON, after every byte has been checked.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a sentence that says why this is no whole session file.
    """
    path = Path(path)
    data = path.read_bytes()
    metadata = _metadata(data, path)
    if metadata.get("format") != FORMAT:
        raise ValueError(f"{path} is a safetensors file but no fourfold session.")
    if metadata.get("format_version") != VERSION:
        raise ValueError(
            f"{path} has session format {metadata.get('format_version')!r}; "
            f"this version of fourfold reads format {VERSION!r}."
        )
    checksum = metadata.get("checksum", "")
    signed = _checksum_field(checksum)
    unsigned = data.replace(signed, _checksum_field(_UNSIGNED), 1)
    if data.count(signed) != 1 or hashlib.sha256(unsigned).hexdigest() != checksum:
        raise ValueError(f"{path} is damaged: its checksum does not match its contents.")
    try:
        return safetensors.torch.load(data), metadata["description"]
    except (SafetensorError, KeyError, ValueError) as error:
        raise ValueError(f"{path} is not a readable session file: {error}.") from error


def _checksum_field(digits: str) -> bytes:
    return f'"checksum":"{digits}"'.encode()


def _metadata(data: bytes, path: Path) -> dict[str, str]:
    """The safetensors header's metadata: an 8-byte length, then that much JSON."""
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > len(data) - 8:
        raise ValueError(f"{path} is no safetensors file, or a truncated one.")
    try:
        metadata = json.loads(data[8 : 8 + length]).get("__metadata__", {})
    except (ValueError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} is no safetensors file, or a damaged one.") from error
    if not isinstance(metadata, dict) or not all(isinstance(x, str) for x in metadata.values()):
        raise ValueError(f"{path} is damaged: its metadata is not text.")
    return metadata

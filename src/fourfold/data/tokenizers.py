"""Tokenizers by name, and what the data layer must know of one."""

from __future__ import annotations

import os
from pathlib import Path

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from fourfold.models.tokenizer import ByteTokenizer

BYTES = "bytes"


def load_tokenizer(name: str) -> PreTrainedTokenizerBase:
    """``ByteTokenizer`` for "bytes", otherwise what ``AutoTokenizer`` loads; code is never run.

    Args:
        name: "bytes", a folder that ``save_pretrained`` wrote, or a name on the Hugging Face hub.

    Raises:
        OSError: there is no such folder or name, or the hub cannot be reached.
        ValueError: what is there holds no tokenizer.
    """
    if name == BYTES:
        return ByteTokenizer()
    folder = Path(name).expanduser()
    if not folder.is_dir() and (name.startswith((".", "~", os.sep)) or name.count("/") > 1):
        raise FileNotFoundError(f"{_accepted(name)} There is no such folder.")
    try:
        return AutoTokenizer.from_pretrained(
            str(folder), local_files_only=folder.is_dir(), trust_remote_code=False
        )
    except OSError as error:
        raise OSError(f"{_accepted(name)} {_first_line(error)}") from error
    except Exception as error:  # each tokenizer class has its own way to fail on odd files
        raise ValueError(f"{_accepted(name)} {_first_line(error)}") from error


def end_of_text(tokenizer: PreTrainedTokenizerBase) -> int:
    """The token that stands after each document.

    Raises:
        ValueError: the tokenizer has none.
    """
    if tokenizer.eos_token_id is None:
        raise ValueError(
            "tokenizer must have an end-of-text token (eos_token), which stands after every "
            f"document; this {type(tokenizer).__name__} has none."
        )
    return int(tokenizer.eos_token_id)


def vocabulary_size(tokenizer: PreTrainedTokenizerBase) -> int:
    """One more than the largest token; ``len(tokenizer)`` is smaller if numbers were left out."""
    return max(len(tokenizer), 1 + max(tokenizer.get_vocab().values()))


def _accepted(name: str) -> str:
    return (
        f'tokenizer must be "{BYTES}", a folder with a saved tokenizer, or a name on the Hugging '
        f"Face hub; got {name!r}."
    )


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]

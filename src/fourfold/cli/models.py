"""Opening what the user names on the command line."""

from __future__ import annotations

from pathlib import Path

from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

from fourfold.sessions import Session


def open_session(folder: Path, path: Path | None) -> Session:
    """The session at ``path``, or a new one if there is no such file yet.

    Args:
        folder: where model and tokenizer were saved.
        path: session file; None for a new session.

    Raises:
        ValueError: the folder holds no model, or the file is no session of it.
    """
    if not (folder / "config.json").exists():
        raise ValueError(f"{folder} holds no saved model: config.json is missing.")
    logging.disable_progress_bar()
    model = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    if path is not None and path.exists():
        return Session.load(path, model, tokenizer)
    return Session(model, tokenizer)

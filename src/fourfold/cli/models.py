"""Opening what the user names on the command line."""

from __future__ import annotations

from pathlib import Path

from safetensors import SafetensorError
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging

from fourfold.data.tokenizers import vocabulary_size
from fourfold.models import FourfoldForCausalLM
from fourfold.sessions import Session


def open_model(folder: Path) -> tuple[FourfoldForCausalLM, PreTrainedTokenizerBase]:
    """The model of ours saved in ``folder``, ready to be asked, and its tokenizer.

    Raises:
        ValueError: the folder holds no model of ours.
    """
    model = open_weights(folder)
    return model, AutoTokenizer.from_pretrained(folder, local_files_only=True)


def open_any_model(folder: Path) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The causal model saved in ``folder``, of this library or of transformers, and its tokenizer.

    Raises:
        OSError: its tokenizer is not there.
        ValueError: the folder holds no causal model, or one that cannot be read.
    """
    model = _weights(folder)
    return model, AutoTokenizer.from_pretrained(folder, local_files_only=True)


def open_weights(folder: Path) -> FourfoldForCausalLM:
    """The model of ours saved in ``folder``, which may have no tokenizer.

    Raises:
        ValueError: the folder holds no model of ours.
    """
    model = _weights(folder)
    if not isinstance(model, FourfoldForCausalLM):
        raise ValueError(f"{folder} holds a {type(model).__name__}, not a model of fourfold.")
    return model


def _weights(folder: Path) -> PreTrainedModel:
    if not (folder / "config.json").exists():
        raise ValueError(f"{folder} holds no saved model: config.json is missing.")
    logging.disable_progress_bar()
    try:
        return AutoModelForCausalLM.from_pretrained(folder, local_files_only=True).eval()
    except SafetensorError as error:
        raise ValueError(f"The weights in {folder} cannot be read: {error}.") from error


def check_vocabulary(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """See that ``model`` knows all tokens of ``tokenizer``.

    Raises:
        ValueError: it does not.
    """
    entries = vocabulary_size(tokenizer)
    if entries > model.config.vocab_size:
        raise ValueError(
            f"The tokenizer has {entries} entries and the model {model.config.vocab_size}: it is "
            "not the model's own."
        )


def open_session(folder: Path, path: Path | None) -> Session:
    """The session at ``path``, or a new one if that is None, with the model of ``folder``.

    Raises:
        FileNotFoundError: there is no such session file.
        ValueError: the folder holds no model of ours, or the file is no session of it.
    """
    model, tokenizer = open_model(folder)
    return Session(model, tokenizer) if path is None else Session.load(path, model, tokenizer)

"""What a run leaves at its end: RUN/model and RUN/result.json."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from torch import Tensor
from transformers import PreTrainedTokenizerBase

from fourfold.files import sync_file, sync_folder
from fourfold.models import FourfoldForCausalLM
from fourfold.training.clock import Clock
from fourfold.training.log import read_log


def keep_model(
    folder: Path,
    model: FourfoldForCausalLM,
    weights: dict[str, Tensor],
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    """Write RUN/model, all of it or nothing.

    Args:
        folder: RUN.
        weights: of ``model``, whole and on the CPU.

    Raises:
        OSError: it cannot be written.
    """
    temporary, place = folder / ".model.tmp", folder / "model"
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        model.save_pretrained(temporary, state_dict=weights)
        tokenizer.save_pretrained(temporary)
        for path in temporary.rglob("*"):  # a tokenizer may have folders
            (sync_folder if path.is_dir() else sync_file)(path)
        sync_folder(temporary)
        shutil.rmtree(place, ignore_errors=True)
        os.rename(temporary, place)
    except Exception as error:  # safetensors and tokenizers raise kinds of their own
        shutil.rmtree(temporary, ignore_errors=True)
        raise OSError(
            f"The model cannot be written to {place}: {error}. All steps are done and kept in the "
            "last checkpoint; make room and start the same command again."
        ) from error
    sync_folder(folder)


def figures(folder: Path, *, tokens: int, clock: Clock) -> dict[str, Any]:
    """What came out of a whole run.

    Args:
        folder: RUN; ``training_loss`` is None if the last row of its log was lost.
        tokens: that were read.
    """
    log = read_log(folder / "log.csv")
    validation = read_log(folder / "validation.csv")[-1]
    return {
        "tokens": tokens,
        "training_loss": float(log[-1]["loss"]) if log else None,
        "validation_loss": float(validation["loss"]),
        "validation_bits_per_byte": float(validation["bits_per_byte"]),
        "train_tokens_per_second": tokens / clock.updates,
        "update_seconds": clock.updates,
        "wall_seconds": clock.whole,
    }

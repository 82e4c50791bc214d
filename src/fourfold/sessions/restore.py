"""From a file's tensors back to a memory, with every tensor checked against the model."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from fourfold.models import FourfoldCache, FourfoldForCausalLM
from fourfold.sessions.fingerprint import differences, tokenizer_of, weights_of


def check_finite(tensors: dict[str, Tensor], where: str) -> None:
    """Refuse tensors with NaN or infinity; ``where`` begins the sentence.

    Raises:
        ValueError: naming the first such tensor.
    """
    for name, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            raise ValueError(f"{where} holds NaN or infinity in {name}.")


def check_owner(
    path: str | os.PathLike[str],
    description: dict[str, Any],
    model: FourfoldForCausalLM,
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    """Refuse a memory that another model or tokenizer made.

    Raises:
        ValueError: saying what differs.
    """
    found = differences(model.config.identity(), description["model_configuration"])
    if not found and description["model_weights"] != weights_of(model):
        found.append("the weights, though the configuration is the same")
    if description["tokenizer"] != tokenizer_of(tokenizer):
        found.append("the tokenizer")
    if found:
        raise ValueError(f"{path} belongs to another model; different are: {'; '.join(found)}.")


def restore_cache(
    tensors: dict[str, Tensor], tokens_seen: int, model: FourfoldForCausalLM
) -> FourfoldCache:
    """A cache from named tensors, each checked against the empty state of its layer.

    Raises:
        ValueError: a tensor is missing, too many, or of the wrong shape or type.
    """
    if not isinstance(tokens_seen, int) or tokens_seen < 0:
        raise ValueError(f"The session file says that {tokens_seen!r} tokens were seen.")
    cache = model.new_cache()
    cache.tokens_seen = tokens_seen
    tensors = dict(tensors)
    for index, layer in enumerate(model.memories() if tokens_seen else []):
        empty = layer.initial_state(1, dtype=model.dtype)
        found, lengths = {}, set()
        for name, expected in empty.named_tensors().items():
            tensor = tensors.pop(f"layers.{index}.{name}", None)
            if tensor is None:
                raise ValueError(f"The session file lacks layers.{index}.{name}.")
            # A size of 0 in the empty state is one that grows, equally in all tensors of a layer.
            fits = tensor.ndim == expected.ndim and tensor.dtype == expected.dtype
            for size, own in zip(tensor.shape, expected.shape, strict=False):
                fits = fits and own in (0, size)
                lengths.update([size] if own == 0 else [])
            if not fits or len(lengths) > 1:
                raise ValueError(
                    f"The session file holds layers.{index}.{name} of shape {tuple(tensor.shape)} "
                    f"and {tensor.dtype}; the model's has {tuple(expected.shape)} and "
                    f"{expected.dtype} (0 for a length)."
                )
            found[name] = tensor.to(model.device)
        cache.states[index] = type(empty)(**found)
    if tensors:
        raise ValueError(f"The session file holds tensors of no layer: {', '.join(tensors)}.")
    return cache

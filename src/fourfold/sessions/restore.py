"""From a file's tensors back to a memory, with every tensor checked against the model."""

from __future__ import annotations

import os
from collections import defaultdict

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from fourfold.models import FourfoldCache, FourfoldConfig, FourfoldForCausalLM
from fourfold.sessions.description import SessionDescription
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
    description: SessionDescription,
    model: FourfoldForCausalLM,
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    """Refuse a memory that another model or tokenizer made.

    Raises:
        ValueError: saying what differs.
    """
    found = differences(
        model.config.identity(), FourfoldConfig.completed(description.model_configuration)
    )
    if description.model_dtype != str(model.dtype):
        found.append(
            f"the type of the weights, {description.model_dtype} in the file and {model.dtype} in "
            "the model"
        )
    elif not found and description.model_weights != weights_of(model):
        found.append("the weights, though the configuration is the same")
    if description.tokenizer != tokenizer_of(tokenizer):
        found.append("the tokenizer")
    if found:
        raise ValueError(f"{path} belongs to another model; different are: {'; '.join(found)}.")


def restore_cache(
    path: str | os.PathLike[str],
    tensors: dict[str, Tensor],
    tokens_seen: int,
    model: FourfoldForCausalLM,
) -> FourfoldCache:
    """A cache from named tensors, each checked against the empty state of its layer.

    Raises:
        ValueError: a tensor is missing, too many, or of the wrong shape or type.
    """
    cache = model.new_cache()
    cache.tokens_seen = tokens_seen
    cache.lengths = torch.tensor([tokens_seen], device=model.device) if tokens_seen else None
    unused = set(tensors)
    for index, layer in enumerate(model.memories() if tokens_seen else []):
        empty = layer.initial_state(1, dtype=model.dtype)
        found: dict[str, Tensor] = {}
        lengths: dict[str, set[int]] = defaultdict(set)
        for name, expected in empty.named_tensors().items():
            full_name = f"layers.{index}.{name}"
            if full_name not in tensors:
                raise ValueError(f"{path} lacks {full_name}.")
            tensor = tensors[full_name]
            # A size of 0 in the empty state is one that grows, equally in all tensors of a memory.
            grown = lengths[name.rpartition(".")[0]]
            fits = tensor.ndim == expected.ndim and tensor.dtype == expected.dtype
            for size, own in zip(tensor.shape, expected.shape, strict=False):
                fits = fits and own in (0, size)
                grown.update([size] if own == 0 else [])
            if not fits or len(grown) > 1:
                raise ValueError(
                    f"{path} holds {full_name} of shape {tuple(tensor.shape)} and {tensor.dtype}; "
                    f"the model's has {tuple(expected.shape)}, 0 for any length, and "
                    f"{expected.dtype}."
                )
            found[name] = tensor.to(model.device)
            unused.discard(full_name)
        cache.states[index] = empty.with_tensors(found)
    if unused:
        raise ValueError(f"{path} holds tensors of no layer: {', '.join(sorted(unused))}.")
    return cache


def restore_logits(
    path: str | os.PathLike[str], logits: Tensor | None, model: FourfoldForCausalLM
) -> Tensor:
    """The logits of the next token, checked against the model.

    Raises:
        ValueError: they are missing, of the wrong shape or type, or not finite.
    """
    if logits is None:
        raise ValueError(f"{path} lacks the logits of the next token.")
    if logits.shape != (model.config.vocab_size,) or logits.dtype != model.dtype:
        raise ValueError(
            f"{path} holds logits of shape {tuple(logits.shape)} and {logits.dtype}; the model's "
            f"have ({model.config.vocab_size},) and {model.dtype}."
        )
    check_finite({"the logits": logits}, str(path))
    return logits.to(model.device)

"""What identifies a model and a tokenizer, so that a memory returns only to its own."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase

from fourfold.models import FourfoldForCausalLM


def weights_of(model: FourfoldForCausalLM) -> str:
    """SHA-256 of all weights: names, types, shapes and values."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def tokenizer_of(tokenizer: PreTrainedTokenizerBase) -> str:
    """SHA-256 of the tokenizer's kind, vocabulary, special tokens and, if fast, its rules.

    How batches are padded or truncated is left out: it can change between two calls.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    rules = {} if backend is None else json.loads(backend.to_str())
    description = {
        "class": type(tokenizer).__name__,
        "vocabulary": sorted(tokenizer.get_vocab().items()),
        "special tokens": {name: str(x) for name, x in tokenizer.special_tokens_map.items()},
        "special tokens are text": getattr(tokenizer, "split_special_tokens", False),
        "rules": {name: x for name, x in rules.items() if name not in ("padding", "truncation")},
    }
    return hashlib.sha256(json.dumps(description).encode()).hexdigest()


def differences(ours: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    """What differs between two configurations, one phrase a field."""
    return [
        f"{name} is {theirs.get(name)!r} in the file and {ours.get(name)!r} in the model"
        for name in sorted(ours.keys() | theirs.keys())
        if ours.get(name) != theirs.get(name)
    ]

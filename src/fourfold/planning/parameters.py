"""Where the parameters of a model are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch

from fourfold.models import FourfoldConfig, FourfoldForCausalLM


def without_memory(config: FourfoldConfig) -> FourfoldForCausalLM:
    """The model that ``config`` describes, with shapes but no numbers: on the meta device."""
    with torch.device("meta"):
        return FourfoldForCausalLM(config)


def parameters_by_part(model: FourfoldForCausalLM) -> dict[str, int]:
    """Parameters of each part of the model, each counted once; they add up to all.

    The norm inside a memory layer is counted with the layer. An output map that is the embedding
    counts 0.
    """
    kinds = model.config.layer_types
    layers = [f"memory, {kind}" for kind in dict.fromkeys(kinds)]
    parts = dict.fromkeys(["embedding", *layers, "feed-forward", "norms", "output"], 0)
    for name, parameter in model.named_parameters():  # a shared one comes once
        parts[_part(name.split("."), kinds)] += parameter.numel()
    return parts


def described(layer_types: Sequence[str]) -> str:
    """Like "12 × atpm", or "8 × atpm, 4 × attention"."""
    return ", ".join(f"{count} × {kind}" for kind, count in Counter(layer_types).items())


def _part(path: Sequence[str], kinds: Sequence[str]) -> str:
    """The part to which the parameter "model.layers.0.memory.in_proj.weight" belongs."""
    if path[0] == "lm_head":
        return "output"
    if path[1] == "embed_tokens":
        return "embedding"
    if path[1] == "layers" and path[3] == "memory":
        return f"memory, {kinds[int(path[2])]}"
    if path[1] == "layers" and path[3] == "feed_forward":
        return "feed-forward"
    return "norms"

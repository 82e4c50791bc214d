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

    Memories that stand side by side in one layer are parts of their own, the long and the short one
    of Memory Mosaics for instance.
    The norm inside a memory layer is counted with the layer. An output map that is the embedding
    counts 0.
    """
    kinds = model.config.layer_types
    found: Counter[str] = Counter()
    for name, parameter in model.named_parameters():  # a shared one comes once
        found[_part(name.split("."), kinds)] += parameter.numel()
    layers = [part for part in found if part.startswith("memory")]
    return {part: found[part] for part in ("embedding", *layers, "feed-forward", "norms", "output")}


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
        side_by_side = f", {path[5]}" if path[4] == "memories" else ""
        return f"memory, {kinds[int(path[2])]}{side_by_side}"
    if path[1] == "layers" and path[3] == "feed_forward":
        return "feed-forward"
    return "norms"

"""A model reads a window of lanes and is told how well it foresaw it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fourfold.data.lanes import Window
from fourfold.models import FourfoldCache
from fourfold.ops.pointwise import IGNORED, cross_entropy_sum


def window_losses(model: nn.Module, window: Window, cache: FourfoldCache | None = None) -> Tensor:
    """(T,) nats for each token of ``window``, 0 where nothing is to be predicted.

    Args:
        model: a ``FourfoldForCausalLM``, perhaps wrapped for several processes.
        cache: the memory of each lane, advanced without its gradient; None keeps none.
    """
    logits = _logits(model, window, cache)
    return torch.nn.functional.cross_entropy(
        logits, window.targets, ignore_index=IGNORED, reduction="none"
    )


def window_loss(model: nn.Module, window: Window, cache: FourfoldCache | None = None) -> Tensor:
    """The sum of ``window_losses``, in one pass on a CPU."""
    return cross_entropy_sum(_logits(model, window, cache), window.targets, IGNORED)


def _logits(model: nn.Module, window: Window, cache: FourfoldCache | None) -> Tensor:
    """(T, vocab_size), in float32 at least."""
    if cache is not None:
        cache.detach()
        cache.resume(window.origins)
    lanes = len(window.last)
    # Whole lanes are rows of equal length, which attention reads faster than packed sequences.
    tokens, offsets = window.tokens, window.cu_seqlens
    rows = tokens.view(lanes, -1) if window.whole else tokens
    logits: Tensor = model(
        input_ids=rows,
        cache=cache,
        use_cache=cache is not None,
        cu_seqlens=None if window.whole else offsets,
    ).logits
    if cache is not None:
        cache.select(window.last)
    return logits.flatten(0, 1).to(torch.promote_types(logits.dtype, torch.float32))

"""How much a model carries from token to token."""

from __future__ import annotations

import torch

from fourfold.models import FourfoldCache, FourfoldForCausalLM


def state_bytes(model: FourfoldForCausalLM, tokens: int) -> int:
    """Bytes of one sequence's memory after ``tokens`` tokens."""
    return cache_after(model, tokens).nbytes


@torch.no_grad()
def cache_after(model: FourfoldForCausalLM, tokens: int) -> FourfoldCache:
    """One sequence's memory after ``tokens`` tokens."""
    cache = model.new_cache()
    model(torch.zeros(1, tokens, dtype=torch.long), cache=cache)
    return cache

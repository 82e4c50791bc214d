"""A bound on the norm of recurrent states, whose every use is told."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from fourfold.layers import RecurrentState
from fourfold.models import FourfoldCache


class StateOverflowError(ArithmeticError):
    """A state has left the range of its numbers; what would follow is NaN."""


@dataclass(frozen=True)
class GuardEvent:
    """One head's state was scaled back.

    Attributes:
        token: tokens seen when it happened.
        layer, head: whose state.
        norm: Frobenius norm found.
        bound: norm it was scaled back to.
    """

    token: int
    layer: int
    head: int
    norm: float
    bound: float


def limit_state_norm(cache: FourfoldCache, max_state_norm: float) -> list[GuardEvent]:
    """Scale every head's state that is longer than ``max_state_norm`` back to it.

    Only the delta family can grow without bound: I − β d sᵀ is no contraction when d ≠ s.

    Raises:
        StateOverflowError: a state is already infinite or NaN.
    """
    events = []
    for layer, state in enumerate(cache.states):
        if not isinstance(state, RecurrentState):
            continue
        # float64: the squares of a float32 state may overflow where the state itself does not.
        norms = state.memory.double().flatten(2).norm(dim=-1)
        if not bool(torch.isfinite(norms).all()):
            raise StateOverflowError(overflow_message(cache.tokens_seen, f"layer {layer}"))
        if float(norms.max()) <= max_state_norm:
            continue
        scale = (max_state_norm / norms).clamp_max(1.0).to(state.memory.dtype)
        cache.states[layer] = replace(state, memory=state.memory * scale[..., None, None])
        events += [
            GuardEvent(cache.tokens_seen, layer, head, float(norms[row, head]), max_state_norm)
            for row, head in (norms > max_state_norm).nonzero().tolist()
        ]
    return events


def overflow_message(token: int, where: str) -> str:
    """The sentence for a state that has overflowed."""
    return (
        f"The memory overflowed within {token} tokens ({where} is infinite or NaN); the text that "
        "did this was not read. A session with a lower max_state_norm keeps its states bounded."
    )

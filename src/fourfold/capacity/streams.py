"""How long a state grows over a long stream, and what the guard does about it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from fourfold.layers import RecurrentState
from fourfold.models import FourfoldCache, FourfoldForCausalLM
from fourfold.ops import atpm
from fourfold.sessions.guard import limit_state_norm
from fourfold.sessions.session import DEFAULT_BOUND, STRIDE

Row = dict[str, Any]


def operator_streams(
    *, tokens: int, address_dim: int = 64, columns: int = 64, seed: int = 0
) -> Iterator[Row]:
    """Largest norms of states that nothing decays: α = 1, β → 1.

    Random addresses, entities and proposals, at ρ = 0 and ρ → 1; and the worst case, two addresses
    44° apart taken in turn with opposite proposals, whose two steps together have a spectral radius
    close to 2: as it is, for as long as it is finite, and with the guard of a session.

    Yields:
        stream, rho, guarded, token, norm, the latter before the guard looks, at every look; until
        the state overflows.
    """
    draw = torch.Generator().manual_seed(seed)
    for rho in (0.0, 0.999):
        yield from _follow(
            "random",
            rho,
            tokens,
            lambda size, rho=rho: _random(draw, size, address_dim, columns, rho),
        )
    for guarded in (False, True):
        yield from _follow("doubling", 0.999, tokens, _doubling, guarded=guarded)


def _follow(
    name: str, rho: float, tokens: int, inputs: Any, *, guarded: bool = False
) -> Iterator[Row]:
    state: Tensor | None = None
    for token in range(STRIDE, tokens + 1, STRIDE):
        _, state = atpm(**inputs(STRIDE), initial_state=state)
        assert state is not None
        norm = float(state.double().norm())
        if not math.isfinite(norm):
            return
        yield {"stream": name, "rho": rho, "guarded": guarded, "token": token, "norm": norm}
        if guarded:
            state = _limited(state)


def _limited(memory: Tensor) -> Tensor:
    """A state as a session's guard leaves it."""
    cache = FourfoldCache(1)
    cache.states[0] = RecurrentState(memory=memory)
    limit_state_norm(cache, DEFAULT_BOUND)
    return cache.named_tensors()["layers.0.memory"]


def _random(draw: torch.Generator, size: int, address: int, columns: int, rho: float) -> Row:
    def gaussian(width: int) -> Tensor:
        return torch.randn(1, size, 1, width, generator=draw)

    views = (columns // 4, columns - columns // 4)
    near = torch.full((1, size, 1), 0.999)
    return {
        "q": normalize(gaussian(address), dim=-1),
        "s": normalize(gaussian(address), dim=-1),
        "k": gaussian(views[0]) / columns**0.5,
        "v": gaussian(views[1]) / columns**0.5,
        "b": 0.999 * normalize(gaussian(address), dim=-1),
        "log_alpha": torch.zeros(1, size, 1),
        "beta_k": near,
        "beta_v": near,
        "rho": torch.full((1, size, 1), rho),
        "lam": near,
    }


def _doubling(size: int) -> Row:
    angle = math.radians(44)
    cosine, sine = math.cos(angle), math.sin(angle)
    sources = torch.tensor([[1.0, 0.0], [cosine, sine]])
    tangents = torch.tensor([[0.0, 1.0], [sine, -cosine]])
    turn = torch.arange(size) % 2
    near = torch.full((1, size, 1), 0.999)
    one = torch.ones(1, size, 1, 1)
    return {
        "q": sources[turn][None, :, None],
        "s": sources[turn][None, :, None],
        "k": one,
        "v": one,
        "b": 0.999 * tangents[turn][None, :, None],
        "log_alpha": torch.zeros(1, size, 1),
        "beta_k": near,
        "beta_v": near,
        "rho": near,
        "lam": near,
    }


@torch.no_grad()
def model_stream(model: FourfoldForCausalLM, name: str, tokens: Sequence[int]) -> Iterator[Row]:
    """The largest norm of any head's state of a model while it reads a stream, without a guard,
    until a state overflows."""
    cache = model.new_cache()
    for start in range(0, len(tokens), STRIDE):
        piece = torch.tensor([list(tokens[start : start + STRIDE])], device=model.device)
        model(piece, cache=cache, logits_to_keep=1)
        norms = [
            float(state.double().flatten(2).norm(dim=-1).max())
            for place, state in cache.named_tensors().items()
            if place.endswith(".memory") and state.ndim == 4
        ]
        norm = max(norms, default=0.0)
        if not math.isfinite(norm):
            return
        yield {"stream": name, "token": start + piece.shape[1], "norm": norm}

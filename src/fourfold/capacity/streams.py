"""How long a state grows over a long stream, and what the guard does about it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from fourfold.capacity.theory import expected_square_norm
from fourfold.layers import RecurrentState
from fourfold.models import FourfoldCache
from fourfold.ops import atpm
from fourfold.sessions.guard import limit_state_norm
from fourfold.sessions.session import DEFAULT_BOUND, STRIDE

Row = dict[str, Any]

STRENGTH = 0.999
"""What stands for 1: strengths of operators' streams, lengths of proposals and ρ."""

ALL_TOLD = 16
"""Looks that are all told; later ones when there are a quarter more of them, and the last."""


def operator_streams(
    *, tokens: int, address_dims: tuple[int, ...] = (64,), columns: int = 64, seeds: int = 1
) -> Iterator[Row]:
    """Norms of states that nothing decays: α = 1, β → 1.

    Random addresses, entities and proposals, at ρ = 0 and ρ → 1, the same at both; and the worst
    case, two addresses 44° apart taken in turn with opposite proposals, whose two steps together
    have a spectral radius close to 2: as it is, for as long as it is finite, and with the guard of
    a session.

    Args:
        tokens: of each stream.
        address_dims: S of random streams.
        columns: D.
        seeds: random streams of each kind.

    Yields:
        stream, address_dim, rho, seed, and what ``follow`` has; of random streams also expected,
        the root of the mean square norm.
    """
    for size in address_dims:
        for rho in (0.0, STRENGTH):
            for seed in range(seeds):
                draw = torch.Generator().manual_seed(seed)
                about = {"stream": "random", "address_dim": size, "rho": rho, "seed": seed}
                inputs = partial(_random, draw, address=size, columns=columns, rho=rho)
                for row in follow(_reading(inputs), FourfoldCache(1), tokens, bound=None):
                    square = expected_square_norm(
                        address_dim=size,
                        tokens=row["token"],
                        strength=STRENGTH,
                        rho=rho,
                        proposal=STRENGTH,
                    )
                    yield about | row | {"expected": square**0.5}
    for bound in (None, DEFAULT_BOUND):
        about = {"stream": "doubling", "address_dim": 2, "rho": STRENGTH, "seed": 0}
        for row in follow(_reading(_doubling), FourfoldCache(1), tokens, bound=bound):
            yield about | row


def follow(
    read: Callable[[FourfoldCache, int, int], None],
    cache: FourfoldCache,
    tokens: int,
    *,
    bound: float | None,
) -> Iterator[Row]:
    """The largest norm of any head's state along a stream, until a state overflows.

    It is looked at where a session's guard looks, every 64 tokens and at the end; what happens in
    between is not seen.

    Args:
        read: reads the tokens from a start to a stop into the cache.
        bound: of the guard; None for no guard.

    Yields:
        at some of the looks, in their order: guarded; token; norm, before the guard acts; kept,
        behind it; scale, the smallest by which a state was multiplied; largest, of all norms so
        far; scaled, how often a state was scaled back so far.
    """
    largest, scaled, told = 0.0, 0, 0
    for look, start in enumerate(range(0, tokens, STRIDE), start=1):
        stop = min(start + STRIDE, tokens)
        read(cache, start, stop)
        norm = _largest_norm(cache)
        if not math.isfinite(norm):
            return
        largest = max(largest, norm)
        guarded = bound is not None and cache.tokens_seen % STRIDE == 0
        events = limit_state_norm(cache, bound) if guarded and bound is not None else []
        scaled += len(events)
        if look <= ALL_TOLD or look >= 1.25 * told or stop == tokens:
            told = look
            yield {
                "guarded": bound is not None,
                "token": stop,
                "norm": norm,
                "kept": _largest_norm(cache) if events else norm,
                "scale": min((event.bound / event.norm for event in events), default=1.0),
                "largest": largest,
                "scaled": scaled,
            }


def norms_of(cache: FourfoldCache) -> list[Tensor]:
    """For each layer with a matrix for a state, the norm of its longest head, (B,) in float64."""
    return [
        state.double().flatten(2).norm(dim=-1).amax(-1)
        for place, state in cache.named_tensors().items()
        if place.endswith(".memory") and state.ndim == 4
    ]


def _largest_norm(cache: FourfoldCache) -> float:
    return max((float(norm.max()) for norm in norms_of(cache)), default=0.0)


def _reading(inputs: Callable[[int], dict[str, Any]]) -> Callable[[FourfoldCache, int, int], None]:
    """Reads what ``inputs`` gives for a number of tokens into the state of one operator."""

    def read(cache: FourfoldCache, start: int, stop: int) -> None:
        before = cache.states[0]
        memory = before.memory if isinstance(before, RecurrentState) else None
        _, memory = atpm(**inputs(stop - start), initial_state=memory)
        assert memory is not None
        cache.states[0], cache.tokens_seen = RecurrentState(memory=memory), stop

    return read


def _random(draw: torch.Generator, size: int, address: int, columns: int, rho: float) -> Row:
    def gaussian(width: int) -> Tensor:
        return torch.randn(1, size, 1, width, generator=draw)

    views = (columns // 4, columns - columns // 4)
    near = torch.full((1, size, 1), STRENGTH)
    return {
        "q": normalize(gaussian(address), dim=-1),
        "s": normalize(gaussian(address), dim=-1),
        "k": gaussian(views[0]) / columns**0.5,
        "v": gaussian(views[1]) / columns**0.5,
        "b": STRENGTH * normalize(gaussian(address), dim=-1),
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
    near = torch.full((1, size, 1), STRENGTH)
    one = torch.ones(1, size, 1, 1)
    return {
        "q": sources[turn][None, :, None],
        "s": sources[turn][None, :, None],
        "k": one,
        "v": one,
        "b": STRENGTH * tangents[turn][None, :, None],
        "log_alpha": torch.zeros(1, size, 1),
        "beta_k": near,
        "beta_v": near,
        "rho": near,
        "lam": near,
    }

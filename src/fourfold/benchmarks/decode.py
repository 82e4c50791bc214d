"""The time of reading one more token, by how many were read before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from fourfold.benchmarks.contestants import Contestant, Decoder, Read
from fourfold.benchmarks.inputs import Inputs, random_inputs
from fourfold.benchmarks.recurrences import Recurrence
from fourfold.benchmarks.shapes import Shape
from fourfold.benchmarks.timing import alternate

PIECE = 128
"""Tokens that are drawn; they are read over and over, more of them than addresses have numbers."""

LONGEST_CACHE = 10_000
"""Tokens that attention is asked to remember."""


@torch.no_grad()
def time_decoding(
    contestants: Sequence[Contestant],
    shape: Shape,
    points: Sequence[int],
    *,
    window: int,
    rounds: int,
    limit: float,
    seed: int,
    device: str,
    dtype: torch.dtype,
) -> Iterator[dict[str, Any]]:
    """Windows of about ``window`` one-token steps, dealt out over ``rounds`` alternating turns.

    A recurrence goes on from the state after so many tokens, which the first contestant of its
    rule has read for all of that rule; attention goes on from a cache of so many keys.

    Args:
        shape: its ``tokens`` are not used.
        points: tokens read before each window, rising.
        limit: seconds that a first turn may take.

    Yields:
        for each point the milliseconds of a step and the bytes of the memory, by contestant.
    """
    drawn = Shape(shape.rows, PIECE, shape.heads, shape.address, shape.columns)
    piece = random_inputs(drawn, seed=seed, device=device, dtype=dtype)
    tokens = [
        {name: x[:, t : t + 1].contiguous() for name, x in piece.items()} for t in range(PIECE)
    ]
    steps = max(1, window // rounds)
    walks = {rule: _states(read, piece, points) for rule, read in _readers(contestants).items()}
    for point in points:
        states = {rule: next(walk) for rule, walk in walks.items()}
        reasons = {c.name: reason for c in contestants if (reason := _refusal(c, point))}
        decoders = {
            c.name: c.decoder(
                tokens,
                states[c.rule] if isinstance(c, Recurrence) else None,
                seen=point,
                room=(rounds + 2) * steps,
            )
            for c in contestants
            if c.name not in reasons
        }
        nbytes = {name: decoder.nbytes for name, decoder in decoders.items()}
        turns = {name: partial(_read, decoder, steps) for name, decoder in decoders.items()}
        measured = alternate(turns, rounds, limit=limit, turn_seconds=0, device=device)
        yield {
            "batch": shape.rows,
            "tokens_read": point,
            "step": {name: time.per(steps).record() for name, time in measured.timings.items()},
            "memory_bytes": nbytes,
            "reasons": reasons | measured.dropped,
        }


def _read(decoder: Decoder, steps: int) -> None:
    for _ in range(steps):
        decoder.step()


def _refusal(contestant: Contestant, point: int) -> str | None:
    if contestant.missing is not None or contestant.cannot_decode is not None:
        return contestant.missing or contestant.cannot_decode
    if not isinstance(contestant, Recurrence) and point > LONGEST_CACHE:
        return f"its memory grows: not asked to keep more than {LONGEST_CACHE:,} tokens."
    return None


def _readers(contestants: Sequence[Contestant]) -> dict[str, Read]:
    """For each rule what reads its tokens between two windows."""
    readers: dict[str, Read] = {}
    for contestant in contestants:
        if isinstance(contestant, Recurrence) and contestant.missing is None:
            readers.setdefault(contestant.rule, contestant.read)
    return readers


def _states(read: Read, piece: Inputs, points: Sequence[int]) -> Iterator[Tensor | None]:
    """The state after so many tokens, one after the other."""
    state, seen = None, 0
    for point in points:
        while seen < point:
            count = min(PIECE, point - seen)
            _, state = read({name: x[:, :count] for name, x in piece.items()}, state, True)
            seen += count
        yield state

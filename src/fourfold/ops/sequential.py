"""The oracle: the recurrence as a token loop that reads like the equation."""

from __future__ import annotations

import torch
from torch import Tensor


def sequential_delta_rule(
    *,
    q: Tensor,
    s: Tensor,
    d: Tensor,
    e: Tensor,
    log_alpha: Tensor,
    erase: Tensor,
    write: Tensor,
    state: Tensor,
    lengths: list[int] | None,
) -> tuple[Tensor, Tensor]:
    """Walk the tokens one by one.

    Args:
        q, s, d: (B, T, H, S).
        e: (B, T, H, D).
        log_alpha: (B, T, H).
        erase, write: (B, T, H, D), or (B, T, H, 1) for one strength for all columns.
        state: (N, H, S, D); N = B, or the number of packed sequences.
        lengths: lengths of the packed sequences (B = 1), or None.

    All in one dtype, float32 or float64, which is kept throughout.

    Returns:
        y (B, T, H, D) and the final state (N, H, S, D).
    """
    streams = (q, s, d, e, log_alpha, erase, write)
    if lengths is None:
        return _walk(*streams, E=state)
    if not lengths:
        return e, state
    packed = [x.split(lengths, dim=1) for x in streams]
    own = zip(*packed, strict=True)
    parts = [_walk(*x, E=E) for x, E in zip(own, state.split(1), strict=True)]
    return torch.cat([y for y, _ in parts], dim=1), torch.cat([E for _, E in parts])


def _walk(
    q: Tensor,
    s: Tensor,
    d: Tensor,
    e: Tensor,
    log_alpha: Tensor,
    erase: Tensor,
    write: Tensor,
    *,
    E: Tensor,
) -> tuple[Tensor, Tensor]:
    outputs = []
    for t in range(e.shape[1]):
        E = log_alpha[:, t, :, None, None].exp() * E
        predicted = torch.einsum("bhsd,bhs->bhd", E, s[:, t])
        correction = write[:, t] * e[:, t] - erase[:, t] * predicted
        E = E + torch.einsum("bhs,bhd->bhsd", d[:, t], correction)
        outputs.append(torch.einsum("bhsd,bhs->bhd", E, q[:, t]))
    return (torch.stack(outputs, dim=1) if outputs else e), E

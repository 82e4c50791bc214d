"""Keys whose time scale hangs on what is read: the recurrence of Memory Mosaics v2."""

from __future__ import annotations

import torch
from torch import Tensor

from fourfold.ops import pointwise
from fourfold.ops.checks import Shapes, sequence_lengths
from fourfold.ops.delta_rule import delta_rule
from fourfold.ops.precision import compute_dtype, no_autocast

FORMS = ("auto", "sequential", "scan")


def gated_keys(
    *,
    x: Tensor,
    log_gate: Tensor,
    log_decay: Tensor,
    initial_state: Tensor | None = None,
    output_final_state: bool = True,
    cu_seqlens: Tensor | None = None,
    form: str = "auto",
) -> tuple[Tensor, Tensor | None]:
    """k̄_t = g_t x_t + λ_t k̄₋₁, and k_t = k̄_t / ‖k̄_t‖.

    Args:
        x: (B, T, H, D), k̃ = W_φ x of the paper.
        log_gate: (B, T, H), log g_t = W_g x. Beyond about ±85 (±700 in float64) k̄ itself is no
            number of its type any more, and neither the state nor what is read on from it is right.
        log_decay: (B, T, H), log λ_t = −|W_λ x|, at most 0.
        initial_state: (N, H, D), k̄ before the first token; zeros if None. N = B, or as many
            sequences as ``cu_seqlens`` packs into B = 1.
        output_final_state: False returns None in place of the state.
        cu_seqlens: (N + 1,) offsets of packed sequences.
        form: "sequential" (the token loop, the oracle), "scan" (in parallel, by the delta rule, and
            at any gate: what is carried is k̄ at a scale that keeps it from overflowing) or "auto"
            (scan, but the loop for single tokens).

    Returns:
        k (B, T, H, D) of unit norm, in the dtype of x; zero where k̄ is. The state k̄ (N, H, D) in
        float32 (float64 if any input is float64), or None.

    Raises:
        TypeError, ValueError: a sentence that names the argument.

    Source: seed 003, section 2.4; arXiv 2507.03285, equations 7 and 8.
    """
    shapes = Shapes()
    shapes.bind("x", x, "B T H D")
    shapes.bind("log_gate", log_gate, "B T H")
    shapes.bind("log_decay", log_decay, "B T H")
    batch, tokens, heads, size = (shapes.sizes[name] for name in "BTHD")
    lengths = sequence_lengths(cu_seqlens, batch, tokens)
    shapes.sizes["N"] = batch if lengths is None else len(lengths)
    if initial_state is not None:
        shapes.bind("initial_state", initial_state, "N H D")
    if form not in FORMS:
        raise ValueError(f"form must be one of {', '.join(map(repr, FORMS))}; got {form!r}.")

    given = [x, log_gate, log_decay, *([] if initial_state is None else [initial_state])]
    dtype = compute_dtype(given)
    if initial_state is None:
        initial_state = x.new_zeros(shapes.sizes["N"], heads, size, dtype=dtype)
    streams = (x.to(dtype), log_gate.to(dtype), log_decay.to(dtype))
    loop = form == "sequential" or (form == "auto" and tokens <= 1)
    initial_state = initial_state.to(dtype)
    with no_autocast(x.device):
        if loop:
            k, state = _loop(*streams, initial_state, lengths)
        else:
            k, state = _scan(*streams, initial_state, cu_seqlens, lengths)
    return k.to(x.dtype), state if output_final_state else None


def _loop(
    x: Tensor, log_gate: Tensor, log_decay: Tensor, state: Tensor, lengths: list[int] | None
) -> tuple[Tensor, Tensor]:
    if lengths is not None:
        parts = zip(
            x.split(lengths, 1),
            log_gate.split(lengths, 1),
            log_decay.split(lengths, 1),
            state.split(1),
            strict=True,
        )
        walked = [_loop(*part, None) for part in parts]
        if not walked:
            return x, state
        return torch.cat([k for k, _ in walked], 1), torch.cat([end for _, end in walked])
    keys = []
    for t in range(x.shape[1]):
        gate, decay = log_gate[:, t, :, None].exp(), log_decay[:, t, :, None].exp()
        state = gate * x[:, t] + decay * state
        keys.append(_direction(state))
    return (torch.stack(keys, 1) if keys else x), state


def _direction(k_bar: Tensor) -> Tensor:
    """k̄ / ‖k̄‖ at any length of k̄; zero where k̄ is."""
    largest = k_bar.detach().abs().amax(-1, keepdim=True)
    return pointwise.unit(k_bar / torch.where(largest > 0, largest, 1))


def _scan(
    x: Tensor,
    log_gate: Tensor,
    log_decay: Tensor,
    state: Tensor,
    cu_seqlens: Tensor | None,
    lengths: list[int] | None,
) -> tuple[Tensor, Tensor]:
    if not x.shape[1]:
        return x, state
    first = state.detach().abs().amax(-1).log()  # −∞ of an empty one
    scale, before, last = _scales(log_gate.detach(), log_decay.detach(), first, lengths)
    shrunk = state * torch.where(first.isfinite(), -first, 0).exp()[..., None]
    one = x.new_ones(1, 1, 1, 1).expand(*x.shape[:3], 1)
    y, final = delta_rule(
        q=one,
        s=one,
        d=one,
        e=x,
        log_alpha=log_decay + before - scale,
        erase=torch.zeros_like(log_gate),
        write=(log_gate - scale).exp(),
        initial_state=shrunk[:, :, None],
        cu_seqlens=cu_seqlens,
    )
    assert final is not None
    return pointwise.unit(y), final[:, :, 0] * last.exp()[..., None]


def _scales(
    log_gate: Tensor, log_decay: Tensor, first: Tensor, lengths: list[int] | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The logarithm of the scale at which k̄ is carried: (B, T, H) at each token and before it, and
    (N, H) behind the last of each sequence.

    It is the greatest weight that anything read so far has in k̄, so that this neither overflows nor
    vanishes. Keys do not depend on it: it needs no gradient and may be rounded.

    Args:
        first: (N, H), that of the initial state; −∞ where there is none.
    """
    if lengths is not None:
        parts = zip(
            log_gate.split(lengths, 1), log_decay.split(lengths, 1), first.split(1), strict=True
        )
        scales, befores, lasts = zip(*(_scales(*part, None) for part in parts), strict=True)
        return torch.cat(scales, 1), torch.cat(befores, 1), torch.cat(lasts)
    if not log_gate.shape[1]:
        return log_gate, log_gate, torch.where(first.isfinite(), first, 0)
    decayed = log_decay.cumsum(1)
    greatest = torch.maximum((log_gate - decayed).cummax(1).values, first[:, None])
    scale = decayed + greatest
    # Where there was nothing, there is nothing to bring to another scale.
    start = torch.where(first.isfinite(), first, scale[:, 0])
    return scale, torch.cat([start[:, None], scale[:, :-1]], 1), scale[:, -1]

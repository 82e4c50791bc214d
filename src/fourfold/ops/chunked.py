"""The exact chunked form: parallel inside a chunk, one small step from chunk to chunk.

Legend: M chunks, H heads, C tokens a chunk, S address, D entity columns, N sequences.

Inside a chunk let γ_i be the product of the retentions α_1 … α_i and L_ij = (γ_i/γ_j) s_iᵀd_j for
j < i. With u_i = Ω_w e_i − Ω_e (α E₋₁)ᵀ s_i, the correction written at token i, and E the state
before the chunk, each block of columns that shares its strengths obeys

    (I + diag(ω_e) L) U = diag(ω_w) E_entities − diag(ω_e γ) S E
    y_i = γ_i Eᵀ q_i + Σ_{j≤i} (γ_i/γ_j) (q_iᵀ d_j) u_j
    E'  = γ_C E + Σ_j (γ_C/γ_j) d_j u_jᵀ

(seed 000, section 10). The system is solved once for
both right-hand sides, so the step from chunk to chunk is one product: E' = P E + G.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fourfold.ops.chunks import ChunkLayout, chunk_layout


def chunked_delta_rule(
    *,
    q: Tensor,
    s: Tensor,
    d: Tensor,
    e: Tensor,
    log_alpha: Tensor,
    erase: Sequence[Tensor],
    write: Sequence[Tensor],
    blocks: list[int],
    state: Tensor,
    lengths: list[int] | None,
    chunk_size: int,
) -> tuple[Tensor, Tensor]:
    """Same result as ``sequential_delta_rule``, to rounding.

    Args:
        q, s, d: (B, T, H, S).
        e: (B, T, H, D).
        log_alpha: (B, T, H).
        erase, write: one (B, T, H) tensor for each block of columns.
        blocks: widths of the column blocks; they sum to D.
        state: (N, H, S, D).
        lengths: lengths of the packed sequences (B = 1), or None.
        chunk_size: C.

    Returns:
        y (B, T, H, D) and the final state (N, H, S, D).
    """
    batch, tokens = e.shape[:2]
    layout = chunk_layout(
        batch=batch, tokens=tokens, lengths=lengths, chunk_size=chunk_size, device=e.device
    )
    if not layout.steps:
        return e, state

    q, s, d = layout.split(q), layout.split(s), layout.split(d)
    log_alpha = layout.split(log_alpha[..., None]).squeeze(-1)
    decay = _pairwise_decay(log_alpha)
    gamma = log_alpha.cumsum(-1).exp()[..., None]
    cross = (s @ d.mT * decay).tril(-1)
    attention = q @ d.mT * decay
    s, q, d = gamma * s, gamma * q, decay[..., -1, :, None] * d
    retained = torch.diag_embed(gamma[..., -1, :].expand(*gamma.shape[:2], s.shape[-1]))

    outputs, finals = [], []
    for entities, block_state, omega_e, omega_w in zip(
        e.split(blocks, -1), state.split(blocks, -1), erase, write, strict=True
    ):
        omega_e, omega_w = layout.split(omega_e[..., None]), layout.split(omega_w[..., None])
        # unitriangular=True ignores the diagonal, so the identity need not be added.
        solved = torch.linalg.solve_triangular(
            omega_e * cross,
            torch.cat([omega_e * s, omega_w * layout.split(entities)], -1),
            upper=False,
            unitriangular=True,
        )
        from_state, from_entities = solved.split([s.shape[-1], entities.shape[-1]], -1)
        before, final = _scan(
            step=retained - d.mT @ from_state,
            gain=d.mT @ from_entities,
            state=layout.sort(block_state),
            layout=layout,
        )
        corrections = from_entities - from_state @ before
        outputs.append(layout.join(q @ before + attention @ corrections))
        finals.append(layout.unsort(final))
    return torch.cat(outputs, -1), torch.cat(finals, -1)


def _pairwise_decay(log_alpha: Tensor) -> Tensor:
    """γ_i/γ_j for j ≤ i, zero above the diagonal: (M, H, C) -> (M, H, C, C).

    The logarithms from j + 1 to i are summed for every j apart: a difference of two long sums
    would lose the small decays that follow a large one.
    """
    size = log_alpha.shape[-1]
    lower = torch.ones(size, size, dtype=torch.bool, device=log_alpha.device).tril()
    terms = log_alpha[..., :, None].expand(*log_alpha.shape, size)
    sums = terms.masked_fill(~lower.tril(-1), 0).cumsum(-2)
    return sums.masked_fill(~lower, float("-inf")).exp()


def _scan(
    *, step: Tensor, gain: Tensor, state: Tensor, layout: ChunkLayout
) -> tuple[Tensor, Tensor]:
    """Carry the state over the chunks: E' = step E + gain.

    Args:
        step: (M, H, S, S).
        gain: (M, H, S, D).
        state: (N, H, S, D), longest sequence first.

    Returns:
        the state before every chunk (M, H, S, D) and the final one (N, H, S, D).
    """
    before, ended, first = [], [], 0
    for width in layout.steps:
        ended.append(state[width:])
        state = state[:width]
        before.append(state)
        state = gain[first : first + width] + step[first : first + width] @ state
        first += width
    # A sequence that ends sooner comes later in the order.
    return torch.cat(before), torch.cat([state, *reversed(ended)])

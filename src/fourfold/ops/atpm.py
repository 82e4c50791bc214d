"""Adaptive Transport–Proximal Memory: the six steps of seed 000 on the shared recurrence."""

from __future__ import annotations

import torch
from torch import Tensor

from fourfold.ops.checks import Shapes, check_finite, check_range
from fourfold.ops.delta_rule import delta_rule
from fourfold.ops.fused import fused_addresses, wants_fused
from fourfold.ops.precision import compute_dtype, no_autocast
from fourfold.ops.transport import recall, transport


def atpm(
    *,
    q: Tensor,
    s: Tensor,
    k: Tensor,
    v: Tensor,
    b: Tensor,
    log_alpha: Tensor,
    beta_k: Tensor,
    beta_v: Tensor,
    rho: Tensor,
    lam: Tensor,
    initial_state: Tensor | None = None,
    output_final_state: bool = True,
    cu_seqlens: Tensor | None = None,
    form: str = "auto",
    chunk_size: int = 64,
    check: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """One joint key/value state a head: decay, compare, polarize, transport, substitute, recall.

        Ē = α E₋₁                      r = e − Ēᵀ s               with e = [k ; v]
        Ω = βK on the Dk columns, βV on the Dv columns
        d = s + ρ (b − s sᵀ b)         E = Ē + d (Ω r)ᵀ
        q' = q + λ (1 − qᵀ a) a        y = Eᵀ q'                   with a = d / ‖d‖

    ρ = 0 writes where it read, λ = 0 leaves the query free, βK = βV revises the entity as one; all
    three together are Gated DeltaNet with key s, value e and query q.

    Shapes: B rows, T tokens, H heads, S address size, Dk + Dv = D entity columns; N = B sequences,
    or as many as ``cu_seqlens`` packs into B = 1.

    Args:
        q: (B, T, H, S) free queries q⁰.
        s: (B, T, H, S) source addresses, of unit norm (not normalised here).
        k: (B, T, H, Dk) key view of the entity; Dk may be 0.
        v: (B, T, H, Dv) value view.
        b: (B, T, H, S) transport proposals, ‖b‖ < 1.
        log_alpha: (B, T, H) logarithm of the retention α in (0, 1].
        beta_k, beta_v: (B, T, H) substitution strengths of the two views.
        rho: (B, T, H) transport ρ in [0, 1].
        lam: (B, T, H) proximal recall λ in [0, 1].
        initial_state, output_final_state, cu_seqlens, form, chunk_size: as in ``delta_rule``.
        check: also look at the values: NaN, infinity, positive log_alpha, ρ or λ outside [0, 1],
            sources that are not of unit norm.

    Returns:
        y (B, T, H, Dk + Dv) in the dtype of ``v``, and the state (N, H, S, Dk + Dv) or None.

    Raises:
        TypeError, ValueError: a sentence that names the argument, what came and what is accepted.

    Source: seed 000, sections 2 to 10.
    """
    shapes = Shapes()
    shapes.bind("q", q, "B T H S")
    shapes.bind("s", s, "B T H S")
    shapes.bind("k", k, "B T H Dk")
    shapes.bind("v", v, "B T H Dv")
    shapes.bind("b", b, "B T H S")
    controls = dict(log_alpha=log_alpha, beta_k=beta_k, beta_v=beta_v, rho=rho, lam=lam)
    for name, control in controls.items():
        shapes.bind(name, control, "B T H")
    if check:
        check_finite(dict(q=q, s=s, k=k, v=v, b=b) | controls)
        check_range("rho", rho, 0.0, 1.0)
        check_range("lam", lam, 0.0, 1.0)
        _check_unit(s)

    # The addresses are made in the precision of the state: half precision would break sᵀd = 1.
    dtype = compute_dtype([q, s, k, v, b, *controls.values()])
    q, s, b, rho, lam = (x.to(dtype) for x in (q, s, b, rho, lam))
    with no_autocast(s.device):
        fused = wants_fused(form, s.device)
        if fused and s.device.type == "cpu":
            q, d = fused_addresses(q=q, s=s, b=b, rho=rho, lam=lam)
        else:
            d = transport(s=s, b=b, rho=rho)
            q = recall(q=q, d=d, lam=lam)
        if fused and s.device.type == "cuda" and v.dtype == torch.bfloat16:
            # Exact when they were made; a GPU multiplies bfloat16 many times faster.
            q, s, d = (x.to(v.dtype) for x in (q, s, d))
    strengths = torch.stack([beta_k, beta_v], -1)
    return delta_rule(
        q=q,
        s=s,
        d=d,
        e=torch.cat([k, v], -1),
        log_alpha=log_alpha,
        erase=strengths,
        write=strengths,
        column_blocks=(shapes.sizes["Dk"], shapes.sizes["Dv"]),
        initial_state=initial_state,
        output_final_state=output_final_state,
        cu_seqlens=cu_seqlens,
        form=form,
        chunk_size=chunk_size,
        check=check,
    )


def _check_unit(s: Tensor) -> None:
    norms = s.double().norm(dim=-1)
    # Half precision cannot hold a unit vector closer than its own spacing.
    tolerance = max(1e-4, 4 * torch.finfo(s.dtype).eps)
    if norms.numel() and float((norms - 1).abs().max()) > tolerance:
        raise ValueError(
            f"s must hold unit vectors (to {tolerance:g}); got norms from "
            f"{float(norms.min()):g} to {float(norms.max()):g}."
        )

"""The geometry of ATPM: where a correction is written, and how a query leans towards it.

Legend: B rows, T tokens, H heads, S address, Dk and Dv the two views of the entity, R rank.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fourfold.ops.checks import Shapes
from fourfold.ops.kernels import plain_on_cpu
from fourfold.ops.pointwise import in_one_pass


def transport_proposal(
    *, k: Tensor, v: Tensor, a_k: Tensor, a_v: Tensor, c: Tensor, eps: float = 1e-6
) -> Tensor:
    """The proposal b that an entity makes from its own two views: ‖b‖ < 1.

        z = (A_K rms(k)) ⊙ (A_V rms(v))      c = C z / √R      b = c / √(1 + ‖c‖²)

    The soft sphere keeps the strength of the binding: a weak one gives a short proposal, where
    normalising would give a long random one.

    Args:
        k: (B, T, H, Dk) key view of the entity.
        v: (B, T, H, Dv) value view.
        a_k: (H, R, Dk), A_K.
        a_v: (H, R, Dv), A_V.
        c: (H, S, R), C.
        eps: added to the mean square before the root.

    Returns:
        b: (B, T, H, S).

    Raises:
        TypeError, ValueError: naming the argument that does not fit.

    Source: seed 000, section 5.
    """
    shapes = Shapes()
    shapes.bind("k", k, "B T H Dk")
    shapes.bind("v", v, "B T H Dv")
    shapes.bind("a_k", a_k, "H R Dk")
    shapes.bind("a_v", a_v, "H R Dv")
    shapes.bind("c", c, "H S R")
    if plain_on_cpu(k, v, a_k, a_v, c) and min(*shapes.sizes.values()) > 0:
        return in_one_pass("proposal", _proposal, (k, v, a_k, a_v, c), (eps,))
    return _proposal(k, v, a_k, a_v, c, eps)


def _proposal(k: Tensor, v: Tensor, a_k: Tensor, a_v: Tensor, c: Tensor, eps: float) -> Tensor:
    z = _project(_rms(k, eps), a_k) * _project(_rms(v, eps), a_v)
    proposal = _project(z, c) / c.shape[-1] ** 0.5
    return proposal * torch.rsqrt(1 + proposal.square().sum(-1, keepdim=True))


def transport(*, s: Tensor, b: Tensor, rho: Tensor) -> Tensor:
    """The destination: the source, moved along its tangent space.

        τ = b − s (sᵀ b)      d = s + ρ τ

    For a unit source sᵀτ = 0 and sᵀd = 1, so d sᵀ is an oblique projector: the write stays bound
    to the source that found the old entity.

    Args:
        s: (B, T, H, S), of unit norm.
        b: (B, T, H, S) proposals.
        rho: (B, T, H), ρ in [0, 1].

    Returns:
        d: (B, T, H, S).

    Raises:
        TypeError, ValueError: naming the argument that does not fit.

    Source: seed 000, section 4.
    """
    shapes = Shapes()
    shapes.bind("s", s, "B T H S")
    shapes.bind("b", b, "B T H S")
    shapes.bind("rho", rho, "B T H")
    tangent = b - s * (s * b).sum(-1, keepdim=True)
    return s + rho[..., None] * tangent


def recall(*, q: Tensor, d: Tensor, lam: Tensor) -> Tensor:
    """The query, corrected towards the destination along the anchor direction alone.

        a = d / ‖d‖      q' = q + λ (1 − qᵀ a) a      so that 1 − q'ᵀ a = (1 − λ)(1 − qᵀ a)

    Args:
        q: (B, T, H, S) free queries, q⁰.
        d: (B, T, H, S) destinations. A zero destination has no direction and corrects nothing.
        lam: (B, T, H), λ in [0, 1].

    Returns:
        the corrected queries (B, T, H, S).

    Raises:
        TypeError, ValueError: naming the argument that does not fit.

    Source: seed 000, section 6.
    """
    shapes = Shapes()
    shapes.bind("q", q, "B T H S")
    shapes.bind("d", d, "B T H S")
    shapes.bind("lam", lam, "B T H")
    anchor = d / d.norm(dim=-1, keepdim=True).clamp_min(torch.finfo(d.dtype).tiny)
    residual = 1 - (q * anchor).sum(-1, keepdim=True)
    return q + lam[..., None] * residual * anchor


def _rms(x: Tensor, eps: float) -> Tensor:
    """Root-mean-square normalisation without gain; an empty view stays empty."""
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) / max(x.shape[-1], 1) + eps)


def _project(x: Tensor, weight: Tensor) -> Tensor:
    """(B, T, H, I), (H, O, I) -> (B, T, H, O): one small matrix a head."""
    return torch.einsum("bthi,hoi->btho", x, weight)

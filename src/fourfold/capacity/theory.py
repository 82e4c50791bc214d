"""How well a memory of S addresses reads back n items: what algebra expects.

Items are written one after another with strength 1; values are independent of each other, have unit
length and directions that are uniformly random. y is what is read behind the last write.
"""

from __future__ import annotations

import numpy as np
import torch

from fourfold.capacity.moments import Numbers, Weights, Writes, orthogonal, random

POINTS = 80
"""Of the quadrature over the score of the right value."""

ANGLES = 1 << 14
"""At which the law of a random direction is tabled."""


def weights(
    rule: str,
    *,
    address_dim: int,
    items: int,
    addresses: str,
    decay: float = 1.0,
    similarity: float = 0.5,
    rho: float = 0.0,
    proposal: float = 0.0,
) -> Weights:
    """Moments of the weights with which values come back; exact.

    Args:
        rule: "delta", "linear" or "transported".
        address_dim: S.
        items: n.
        addresses: "orthogonal" (taken in turn where n > S), "random" or "similar".
        decay: α.
        similarity: mean cosine of two similar addresses.
        rho, proposal: of "transported", ρ and ‖b‖, with b in a uniformly random direction.
    """
    spread = (rho * proposal) ** 2 / address_dim if rule == "transported" else 0.0
    writes = Writes(erases=rule != "linear", decay=decay, spread=spread)
    if addresses == "orthogonal":
        return orthogonal(writes, address_dim=address_dim, items=items)
    common = similarity if addresses == "similar" else None
    return random(writes, address_dim=address_dim, items=items, similarity=common)


def expected_error(found: Weights) -> float:
    """The mean over items of E‖y − e‖² / ‖e‖² when each is read with its own address; exact.

    Under a purely additive rule with random addresses and α = 1 it is (n − 1) / S; under the delta
    rule with orthogonal ones max(0, 2 (n − S) / n).
    """
    return float(np.mean(found.square.sum(1) - 2 * found.mean.diagonal() + 1))


def expected_accuracy(found: Weights, *, columns: int, heads: int, codebook: int) -> Numbers:
    """The share of reads in which the value stored there is the nearest; an approximation.

    Takes the score yᵀe of the right value, and of every other value that is stored, for normal and
    independent of each other: with the moments of its weight (of H heads, of the mean over heads),
    and with the crosstalk of all other values in D dimensions. A value that is not stored has any
    direction. The weights of few heads are not normal and hang together.

    Args:
        found: the weights of n items.
        columns: D of all heads together, 2 or more.
        heads: H.
        codebook: values to choose from, n of them stored.

    Returns:
        (n,) the share, of each item.
    """
    total = found.square.sum(1, keepdims=True)
    crosstalk = total - found.square
    variance = (found.square - found.mean**2).clip(0) / heads + crosstalk / columns
    deviation = torch.from_numpy(variance).clamp_min(1e-18).sqrt()
    mean = torch.from_numpy(found.mean)
    nodes, shares = np.polynomial.hermite_e.hermegauss(POINTS)
    # (points, n): the score of the right value, then the chance to pass each of the others.
    score = mean.diagonal() + torch.from_numpy(nodes)[:, None] * deviation.diagonal()
    stored = torch.special.log_ndtr((score[..., None] - mean) / deviation)
    stored.diagonal(dim1=1, dim2=2).zero_()
    aside = torch.from_numpy(crosstalk.diagonal() * (1 - 1 / columns))
    cosine = score / (score.square() + aside).clamp_min(1e-18).sqrt()
    others = np.log(_below(cosine.numpy(), columns)) * (codebook - len(mean))
    right = np.exp(stored.sum(-1).numpy() + others)
    return np.asarray(shares / shares.sum() @ right)


def _below(cosine: Numbers, columns: int) -> Numbers:
    """The chance that a uniformly random direction in D dimensions has a smaller cosine."""
    angles = np.linspace(-np.pi / 2, np.pi / 2, ANGLES)
    density = np.cos(angles) ** (columns - 2)
    share = np.cumsum(density)
    return np.interp(np.arcsin(cosine.clip(-1, 1)), angles, share / share[-1])


def expected_square_norm(
    *, address_dim: int, tokens: int, strength: float, rho: float, proposal: float
) -> float:
    """E‖E‖² behind a stream of random addresses, entities of unit mean square and random proposals,
    with α = 1; exact.

    It grows towards a bound, over some S² tokens where ρ ‖b‖ and the strength are 1. That is of the
    mean: how far single streams go beyond it, it does not say.

    Args:
        address_dim: S.
        strength: β.
        rho, proposal: ρ and ‖b‖.
    """
    length = 1 + (rho * proposal) ** 2 * (1 - 1 / address_dim)  # E‖d‖²
    rate = 1 - (2 * strength - strength**2 * length) / address_dim
    return strength**2 * length * (1 - rate**tokens) / (1 - rate)

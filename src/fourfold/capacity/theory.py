"""How well a memory of S addresses reads back n items: what algebra expects."""

from __future__ import annotations

from collections.abc import Iterator


def expected_error(
    rule: str, *, address_dim: int, items: int, addresses: str, decay: float = 1.0
) -> float | None:
    """The mean over items of E‖y − e‖² / ‖e‖² when each is read with its own address.

    Items are written one after another with strength 1; values have unit length and are independent
    of each other. ``y`` is what is read behind the last write.

    For random addresses, independent and uniform on the unit sphere of S dimensions, a write j
    turns y = Eᵀ s into α y − c (α Eᵀ s_j − e_j) under the delta rule, and into α y + c e_j where
    writes only add, with c = sᵀ s_j and E c² = 1/S. Expectations follow from write to write; terms
    of order 1/S² are left out.

    Args:
        rule: "delta" or "linear".
        address_dim: S.
        items: n.
        addresses: "orthogonal" (n ≤ S) or "random".
        decay: α.

    Returns:
        None where nothing is known: more orthogonal addresses than dimensions, or another kind.
    """
    if rule not in ("delta", "linear") or items < 1:
        return None
    if addresses == "orthogonal" and items <= address_dim:
        return sum((1 - decay**age) ** 2 for age in range(items)) / items
    if addresses == "random":
        errors = _delta if rule == "delta" else _linear
        return sum(errors(address_dim, items, decay)) / items
    return None


def _delta(address_dim: int, items: int, decay: float) -> Iterator[float]:
    """Of the first item, the second and so on; y = e right after its write."""
    share = 1 / address_dim
    norms = _norms(address_dim, items, decay, erases=True)
    for first in range(items):
        along, square = 1.0, 1.0  # E yᵀe and E‖y‖²
        for write in range(first + 1, items):
            before = decay**2 * norms[write - 1]
            square = decay**2 * square * (1 - 2 * share) + share * (before * share + 1)
            along *= decay * (1 - share)
        yield square - 2 * along + 1


def _linear(address_dim: int, items: int, decay: float) -> Iterator[float]:
    """The same, where an item meets what was written before it, too."""
    share = 1 / address_dim
    norms = _norms(address_dim, items, decay, erases=False)
    for first in range(items):
        along = 1.0
        square = 1 + (decay**2 * norms[first - 1] * share if first else 0.0)
        for _ in range(first + 1, items):
            square = decay**2 * square + share
            along *= decay
        yield square - 2 * along + 1


def _norms(address_dim: int, items: int, decay: float, *, erases: bool) -> list[float]:
    """E‖E‖² behind each write."""
    found, norm = [], 0.0
    for _ in range(items):
        norm = decay**2 * norm * ((1 - 1 / address_dim) if erases else 1.0) + 1
        found.append(norm)
    return found

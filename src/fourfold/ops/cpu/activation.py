"""The SiLU and its derivative, vector by vector."""

from __future__ import annotations

from fourfold.ops.cpu.vectors import add, device, divide, exp, fma, multiply, subtract


@device
def sigmoid(x, one, nothing):
    """``one`` and ``nothing`` are vectors of 1 and 0, which a loop makes once."""
    return divide(one, add(one, exp(subtract(nothing, x))))


@device
def silu_slope(x, share, one):
    """d silu(x) / dx, where ``share`` is the sigmoid of x."""
    return multiply(share, fma(x, subtract(one, share), one))

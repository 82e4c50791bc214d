"""Random inputs, the same for all contestants of a shape."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from fourfold.benchmarks.shapes import Shape

Inputs = dict[str, Tensor]


def random_inputs(
    shape: Shape, *, seed: int, device: str = "cpu", dtype: torch.dtype = torch.float32
) -> Inputs:
    """Leaves that take gradients, and dy, the gradient that comes back to the output.

    Returns:
        q, s, b (B, T, H, S); k (B, T, H, D // 2), v (B, T, H, D − D // 2) and e (B, T, H, D), the
        two views side by side; log_alpha, beta_k, beta_v, rho, lam (B, T, H), always float32; dy
        (B, T, H, D), without gradient.
    """
    generator = torch.Generator().manual_seed(seed)
    stem = (shape.rows, shape.tokens, shape.heads)
    half = shape.columns // 2

    def normal(*size: int) -> Tensor:
        return torch.randn(*stem, *size, generator=generator)

    def gate() -> Tensor:
        return normal().sigmoid()

    e = normal(shape.columns)
    vectors = {
        "q": F.normalize(normal(shape.address), dim=-1),
        "s": F.normalize(normal(shape.address), dim=-1),
        "b": 0.7 * F.normalize(normal(shape.address), dim=-1),
        "k": e[..., :half].contiguous(),
        "v": e[..., half:].contiguous(),
        "e": e,
    }
    controls = {"log_alpha": -0.1 * gate()} | {
        name: gate() for name in ("beta_k", "beta_v", "rho", "lam")
    }
    leaves = {name: x.to(device, dtype) for name, x in vectors.items()}
    leaves |= {name: x.to(device) for name, x in controls.items()}
    dy = normal(shape.columns).to(device, dtype)
    return {name: x.requires_grad_() for name, x in leaves.items()} | {"dy": dy}

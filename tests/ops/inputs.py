"""Random operator inputs and the measure of error that the operator tests share."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def atpm_inputs(
    *, B=2, T=20, H=2, S=5, Dk=3, Dv=4, dtype=torch.float64, seed=0
) -> dict[str, Tensor]:
    """Inputs of ``atpm`` as leaves that take gradients."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    def gate() -> Tensor:
        return torch.sigmoid(normal(B, T, H))

    inputs = dict(
        q=normal(B, T, H, S),
        s=F.normalize(normal(B, T, H, S), dim=-1),
        k=normal(B, T, H, Dk),
        v=normal(B, T, H, Dv),
        b=0.7 * F.normalize(normal(B, T, H, S), dim=-1),
        log_alpha=-0.3 * gate(),
        beta_k=gate(),
        beta_v=gate(),
        rho=gate(),
        lam=gate(),
    )
    return leaves(inputs, dtype)


def delta_inputs(
    *, B=2, T=20, H=2, S=5, D=6, per_column=False, dtype=torch.float64, seed=0
) -> dict[str, Tensor]:
    """Inputs of ``delta_rule`` with an erase address that differs from the write address."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    s = F.normalize(normal(B, T, H, S), dim=-1)
    strength = (B, T, H, D) if per_column else (B, T, H)
    inputs = dict(
        q=normal(B, T, H, S),
        s=s,
        d=s + 0.3 * normal(B, T, H, S),
        e=normal(B, T, H, D),
        log_alpha=-0.3 * torch.sigmoid(normal(B, T, H)),
        erase=torch.sigmoid(normal(*strength)),
        write=torch.sigmoid(normal(*strength)),
    )
    return leaves(inputs, dtype)


def leaves(inputs: dict[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
    return {name: x.detach().to(dtype).requires_grad_() for name, x in inputs.items()}


def random_state(N=2, H=2, S=5, D=7, dtype=torch.float64, seed=1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    state = torch.randn(N, H, S, D, generator=generator, dtype=torch.float64)
    return state.to(dtype).requires_grad_()


def run(op, inputs: dict[str, Tensor], state: Tensor | None = None, **options):
    """Output, final state and all gradients of a loss that weighs both at random."""
    y, final = op(**inputs, initial_state=state, **options)
    generator = torch.Generator().manual_seed(7)
    loss = sum(
        (x.double() * torch.randn(x.shape, generator=generator, dtype=torch.float64)).sum()
        for x in (y, final)
    )
    wanted = dict(inputs) if state is None else dict(inputs) | {"initial_state": state}
    gradients = torch.autograd.grad(loss, list(wanted.values()), allow_unused=True)
    results = {"y": y.detach(), "state": final.detach()}
    for (name, x), gradient in zip(wanted.items(), gradients, strict=True):
        results[f"d{name}"] = torch.zeros_like(x) if gradient is None else gradient
    return results


def relative_error(result: Tensor, reference: Tensor) -> float:
    """Root mean square of the difference over that of the reference."""
    reference = reference.double()
    difference = (result.double() - reference).square().mean().sqrt()
    scale = reference.square().mean().sqrt()
    if reference.numel() == 0:
        return 0.0
    return float(difference / scale) if scale > 0 else float(difference)


def assert_close(results: dict, reference: dict, tolerance: float) -> None:
    """Every named result within ``tolerance`` of its reference, relative to the latter's size."""
    assert results.keys() == reference.keys()
    for name, expected in reference.items():
        assert results[name].shape == expected.shape, name
        error = relative_error(results[name], expected)
        assert error <= tolerance, f"{name}: relative error {error:.2e} over {tolerance:.0e}"


def doubling_stream(T: int, *, S=4, dtype=torch.float32) -> dict[str, Tensor]:
    """Two addresses 44° apart, taken in turn, with opposite tangent proposals: the worst case.

    One row, one head, one column in each view. For ρ, β → 1 and α = 1 the product of the two steps
    has spectral radius close to 2, so the state doubles every two tokens.
    """
    angle = math.radians(44)
    sources = torch.zeros(2, S, dtype=torch.float64)
    sources[0, 0] = 1
    sources[1, 0], sources[1, 1] = math.cos(angle), math.sin(angle)
    tangents = torch.zeros(2, S, dtype=torch.float64)
    tangents[0, 1] = 1
    tangents[1, 0], tangents[1, 1] = math.sin(angle), -math.cos(angle)
    turn = torch.arange(T) % 2
    near_one = torch.full((1, T, 1), 0.999, dtype=torch.float64)
    ones = torch.ones(1, T, 1, 1, dtype=torch.float64)
    inputs = dict(
        q=sources[turn][None, :, None],
        s=sources[turn][None, :, None],
        k=ones,
        v=ones,
        b=0.999 * tangents[turn][None, :, None],
        log_alpha=torch.zeros(1, T, 1, dtype=torch.float64),
        beta_k=near_one,
        beta_v=near_one,
        rho=near_one,
        lam=near_one,
    )
    return {name: x.to(dtype) for name, x in inputs.items()}

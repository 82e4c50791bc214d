"""Reading from stored pairs by kernel regression whose bandwidth narrows as they become more."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from fourfold.ops.checks import Shapes
from fourfold.ops.precision import compute_dtype
from fourfold.ops.reach import Reach, read_in_reach, read_visible

FORMS = ("auto", "sequential", "fast")


def associative_read(
    *,
    k: Tensor,
    v: Tensor,
    beta0: Tensor,
    beta1: Tensor,
    exponent: Tensor,
    window: int | None = None,
    delay: int = 1,
    q: Tensor | None = None,
    positions: Tensor | None = None,
    held: Tensor | None = None,
    form: str = "auto",
) -> Tensor:
    """y_t = Σ_i softmax_i(β(n) q_tᵀ k_i) v_i over the n pairs in reach, β(n) = β₁ n^a + β₀.

    Position t reads pairs i with t − window < i ≤ t − delay. Where none is in reach, y is zero. On
    unit keys this is regression with the Gaussian kernel exp(−β(n)/2 ‖q − k‖²).

    Args:
        k: (B, L, H, D) keys of unit norm.
        v: (B, L, H, E) values, which look ahead already: pair i may hold what stood at i + 1.
        beta0, beta1: (H,), β₀ ≥ 0 and β₁ ≥ 0.
        exponent: (H,), a in [0, 1].
        window: reach to the past; None for all of it.
        delay: how near a pair may be, at least 1, or the value would look into the future.
        q: (B, T, H, D) what is asked; None asks with the keys, T = L.
        positions: (B, T) place of each question; None counts from 0.
        held: (B, L) place of each pair, −1 where there is none; None counts from 0. With ``q``,
            give both, or q asks at the last T of the L places.
        form: "sequential" (one position at a time, the oracle), "fast" or "auto" (fast). Fast needs
            memory for T × 2 window scores, and for none where all of the past is in reach and
            torch has a kernel for it; with ``q``, ``positions`` or ``held`` it looks at a bounded
            number of questions at a time, and again where a gradient is wanted.

    Returns:
        y (B, T, H, E) in the dtype of v.

    Raises:
        TypeError, ValueError: a sentence that names the argument.

    Source: seed 003, sections 2.2, 2.3 and 2.6; arXiv 2507.03285, equations 4 to 6.
    """
    shapes = Shapes()
    shapes.bind("k", k, "B L H D")
    shapes.bind("v", v, "B L H E")
    for name, value in (("beta0", beta0), ("beta1", beta1), ("exponent", exponent)):
        shapes.bind(name, value, "H")
    if q is not None:
        shapes.bind("q", q, "B T H D")
    if not isinstance(delay, int) or delay < 1:
        raise ValueError(f"delay must be an integer from 1; got {delay!r}.")
    if window is not None and (not isinstance(window, int) or window < 1):
        raise ValueError(f"window must be an integer from 1, or None; got {window!r}.")
    if form not in FORMS:
        raise ValueError(f"form must be one of {', '.join(map(repr, FORMS))}; got {form!r}.")
    asked = k if q is None else q
    rows, tokens, length = k.shape[0], asked.shape[1], k.shape[1]
    for name, places, size in (("positions", positions, tokens), ("held", held, length)):
        if places is not None and (places.dtype != torch.long or places.shape != (rows, size)):
            raise ValueError(
                f"{name} must be an int64 tensor of shape ({rows}, {size}); got "
                f"{places.dtype} of {tuple(places.shape)}."
            )
    sharpness = _Sharpness(beta0, beta1, exponent)
    plain = q is None and positions is None and held is None
    if form == "sequential" or not plain:
        count = torch.arange(length, device=k.device).expand(rows, -1)
        held = count if held is None else held
        positions = count[:, length - tokens :] if positions is None else positions
        reach = Reach(window, delay)
        if form == "sequential":
            return _one_by_one(asked, k, v, reach.visible(positions, held), sharpness)
        asked, k, v = (x.transpose(1, 2) for x in (asked, k, v))
        y = read_in_reach(
            asked, k, v, positions, held, reach, scale=1.0, sharpen=sharpness.sharpened
        )
        return y.transpose(1, 2)
    if length <= delay:
        return torch.zeros_like(v)  # nothing is in reach of anything
    if window is None:
        return _read_long(k, v, delay, sharpness)
    return _read_short(k, v, window, delay, sharpness)


class _Sharpness:
    """β(n) = β₁ n^a + β₀, by head."""

    def __init__(self, beta0: Tensor, beta1: Tensor, exponent: Tensor) -> None:
        self.dtype = compute_dtype([beta0, beta1, exponent])
        self.parts = [x.to(self.dtype) for x in (beta0, beta1, exponent)]

    def __call__(self, count: Tensor) -> Tensor:
        """(…) numbers of pairs -> (…, H)."""
        beta0, beta1, exponent = self.parts
        # Where there is no pair nothing is read, but 0^a would have no gradient.
        return beta1 * count.clamp(min=1).to(self.dtype)[..., None] ** exponent + beta0

    def sharpened(self, q: Tensor, count: Tensor) -> Tensor:
        """β(n) q: q (B, H, T, D) with counts (B, T) or (T,)."""
        return (self(count).transpose(-1, -2)[..., None] * q).to(q.dtype)


def _one_by_one(q: Tensor, k: Tensor, v: Tensor, visible: Tensor, sharpness: _Sharpness) -> Tensor:
    rows = []
    for b in range(q.shape[0]):
        outputs = []
        for t in range(q.shape[1]):
            pairs = visible[b, t].nonzero().flatten()
            beta = sharpness(torch.tensor(len(pairs), device=q.device))
            scores = beta * torch.einsum("ihd,hd->ih", k[b, pairs], q[b, t])
            outputs.append(torch.einsum("ih,ihe->he", scores.softmax(0).to(v.dtype), v[b, pairs]))
        rows.append(torch.stack(outputs) if outputs else v[b, :0])
    return torch.stack(rows) if rows else v


def _read_long(k: Tensor, v: Tensor, delay: int, sharpness: _Sharpness) -> Tensor:
    """All pairs up to t − delay: plain causal attention, once questions and pairs are shifted."""
    reading = k.shape[1] - delay
    empty = v.new_zeros(v.shape[0], delay, *v.shape[2:])
    count = torch.arange(1, reading + 1, device=k.device)
    y = F.scaled_dot_product_attention(
        sharpness.sharpened(k[:, delay:].transpose(1, 2), count),
        k[:, :reading].transpose(1, 2),
        v[:, :reading].transpose(1, 2),
        is_causal=True,
        scale=1.0,
    )
    return torch.cat([empty, y.transpose(1, 2)], 1)


def _read_short(k: Tensor, v: Tensor, window: int, delay: int, sharpness: _Sharpness) -> Tensor:
    """Blocks of ``window`` questions, each with the pairs of its own and of the block before."""
    rows, tokens, heads, _ = k.shape
    block = min(window, tokens)
    blocks = -(-tokens // block)

    def beside(x: Tensor) -> Tensor:
        """(B · blocks, H, 2 block, ·): the block before, and the block itself."""
        x = F.pad(x, (0, 0, 0, 0, block, blocks * block - tokens))
        return x.unfold(1, 2 * block, block).flatten(0, 1).transpose(-1, -2)

    keys, values = beside(k), beside(v)
    own = torch.arange(block, 2 * block, device=k.device)
    near = torch.arange(2 * block, device=k.device)
    inside = (near <= own[:, None] - delay) & (near > own[:, None] - window)
    # The block before the first holds nothing.
    there = torch.arange(blocks, device=k.device)[:, None] * block + near - block >= 0
    visible = (inside & there[:, None]).repeat(rows, 1, 1)
    y = read_visible(
        keys[:, :, block:], keys, values, visible, scale=1.0, sharpen=sharpness.sharpened
    )
    return y.transpose(1, 2).reshape(rows, blocks * block, heads, -1)[:, :tokens]

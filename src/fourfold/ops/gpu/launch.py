"""The two calls: from the inputs to the outputs and what is kept, and back from there."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fourfold.ops.gpu.gradients import address_gradients, entity_gradients
from fourfold.ops.gpu.output import outputs
from fourfold.ops.gpu.plan import Plan, chunks_of, kept_shapes, make_plan
from fourfold.ops.gpu.prepare import prepare_backward, prepare_forward, prepare_pairs
from fourfold.ops.gpu.scan import scan_backward, scan_forward


def forward(
    q: Tensor,
    s: Tensor,
    d: Tensor,
    e: Tensor,
    log_alpha: Tensor,
    erase: Tensor,
    write: Tensor,
    edges: list[int],
    initial_state: Tensor | None,
    cu_seqlens: Tensor | None,
    keep: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Run the rule over all sequences.

    Args:
        q, s, d: (B, T, H, S), float32 or bfloat16.
        e: (B, T, H, D), of the same dtype.
        log_alpha: (B, T, H) float32.
        erase, write: (B, T, H, G) float32, one strength for each column block.
        edges: G + 1 column offsets from 0 to D, never decreasing.
        initial_state: (N, H, S, D) float32, zeros if None.
        cu_seqlens: (N + 1,) offsets of the sequences packed into B = 1, or None.
        keep: also return what ``backward`` needs.

    Returns:
        y (B, T, H, D) in e's dtype, the final state (N, H, S, D) in float32, and, empty unless
        ``keep``, predicted (B, T, H, D) in float32 and the state before each chunk in e's dtype;
        ``kept_shapes`` tells their shapes.

    Raises:
        TypeError: inputs that are neither float32 nor bfloat16.
        ValueError: more than eight column blocks.
    """
    plan = make_plan(q, e, edges, cu_seqlens)
    q, s, d, e, log_alpha, erase, write = (
        x.contiguous() for x in (q, s, d, e, log_alpha, erase, write)
    )
    initial_state = None if initial_state is None else initial_state.float().contiguous()
    y = torch.empty_like(e)
    final = _states(plan, e)
    predicted_shape, states_shape = kept_shapes(q, e, edges, cu_seqlens, keep)
    predicted = e.new_empty(predicted_shape, dtype=torch.float32)
    if not e.numel():
        final = torch.zeros_like(final) if initial_state is None else initial_state.clone()
        return y, final, predicted, e.new_empty(states_shape)

    work = _Workspace(plan, e, cu_seqlens)
    A = work.squares(e.dtype)
    # Packed rows may have fewer chunks than there is room for.
    new = e.new_zeros if plan.packed else e.new_empty
    states = new(plan.chunks, plan.heads, plan.address, plan.columns)
    from_entities = work.squares(e.dtype, plan.blocks)
    from_state = e.new_empty(*erase.shape, plan.address)
    corrections = torch.empty_like(e)
    with torch.cuda.device_of(e):
        work.prepare_pairs(q, s, d, log_alpha, A)
        prepare_forward[work.matrices * plan.blocks,](
            s, e, erase, write, work.L, work.gamma, from_entities, from_state, corrections,
            work.bounds, plan.tokens,
            **work.sizes, **work.blocks, **work.tiles,
        )  # fmt: skip
        scan_forward[work.walks,](
            d, erase, from_state, corrections, work.gamma, work.tail, initial_state, states, final,
            work.cu_seqlens, work.starts, plan.tokens,
            **work.sizes, **work.blocks, **work.scan,
        )  # fmt: skip
        outputs[work.matrices * plan.panels(plan.column_tile),](
            q, e, A, from_entities, from_state, corrections, states, work.gamma, y,
            predicted if keep else None, work.bounds, plan.tokens,
            **work.sizes, **work.blocks, **work.tiles, PANELS=plan.panels(plan.column_tile),
        )  # fmt: skip
    return y, final, predicted, states if keep else e.new_empty(states_shape)


def backward(
    q: Tensor,
    s: Tensor,
    d: Tensor,
    e: Tensor,
    log_alpha: Tensor,
    erase: Tensor,
    write: Tensor,
    edges: list[int],
    cu_seqlens: Tensor | None,
    predicted: Tensor,
    states: Tensor,
    dy: Tensor | None,
    dfinal: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of the inputs of ``forward``, which was called with ``keep``.

    Args:
        q, s, d, e, log_alpha, erase, write, edges, cu_seqlens: as given to ``forward``.
        predicted, states: as returned by it.
        dy: (B, T, H, D), gradient of y, zeros if None.
        dfinal: (N, H, S, D) float32, gradient of the final state, zeros if None.

    Returns:
        the gradients of q, s, d and e in their dtype; those of log_alpha, erase, write and of the
        initial state (whether or not there was one) in float32.
    """
    plan = make_plan(q, e, edges, cu_seqlens)
    q, s, d, e, log_alpha, erase, write, predicted, states = (
        x.contiguous() for x in (q, s, d, e, log_alpha, erase, write, predicted, states)
    )
    dy = torch.zeros_like(e) if dy is None else dy.to(e.dtype).contiguous()
    dfinal = None if dfinal is None else dfinal.float().contiguous()
    dq, ds, dd, de = (torch.empty_like(x) for x in (q, s, d, e))
    derase, dwrite = torch.empty_like(erase), torch.empty_like(write)
    dinitial = _states(plan, e)
    if not e.numel():
        for gradient in (dq, ds, dd, derase, dwrite):
            gradient.zero_()
        dinitial = torch.zeros_like(dinitial) if dfinal is None else dfinal.clone()
        return dq, ds, dd, de, torch.zeros_like(log_alpha), derase, dwrite, dinitial

    work = _Workspace(plan, e, cu_seqlens)
    A = work.squares(torch.float32)
    from_gradient = e.new_empty(*erase.shape, plan.address)
    dcorrections, corrections, dpredicted = (torch.empty_like(e) for _ in range(3))
    dstates = torch.empty_like(states)
    dA, dL = work.squares(e.dtype), work.squares(e.dtype)
    tiles = -(-plan.address // plan.address_tile)
    # One part from the pairs inside each chunk, one from every tile of addresses.
    dlog_alpha = log_alpha.new_empty(1 + tiles, *log_alpha.shape)
    with torch.cuda.device_of(e):
        work.prepare_pairs(q, s, d, log_alpha, A)
        prepare_backward[work.matrices * plan.blocks,](
            d, erase, dy, A, work.L, work.tail, from_gradient, dcorrections,
            work.bounds, plan.tokens,
            **work.sizes, **work.blocks, **work.tiles,
        )  # fmt: skip
        scan_backward[work.walks,](
            q, s, erase, dy, from_gradient, dcorrections, work.gamma, dfinal, dstates, dinitial,
            work.cu_seqlens, work.starts, plan.tokens,
            **work.sizes, **work.blocks, **work.scan,
        )  # fmt: skip
        entity_gradients[work.matrices,](
            e, log_alpha, erase, write, predicted, dy, dcorrections, A, work.L,
            corrections, dpredicted, dA, dL, de, derase, dwrite, dlog_alpha[0],
            work.bounds, plan.tokens,
            **work.sizes, **work.blocks, BV=plan.scan_widths[1],
        )  # fmt: skip
        address_gradients[work.matrices * tiles,](
            q, s, d, dy, corrections, dpredicted, states, dstates, work.gamma, work.tail,
            dA, dL, dq, ds, dd, dlog_alpha[1:], work.bounds, plan.tokens, dlog_alpha.stride(0),
            **work.sizes, **work.tiles, D=plan.columns,
        )  # fmt: skip
    return dq, ds, dd, de, dlog_alpha.sum(0), derase, dwrite, dinitial


class _Workspace:
    """Scratch tensors, and the arguments that kernels share."""

    def __init__(self, plan: Plan, e: Tensor, cu_seqlens: Tensor | None) -> None:
        self.plan = plan
        self.cu_seqlens = self.bounds = self.starts = None
        if cu_seqlens is not None:
            self.cu_seqlens = cu_seqlens.long().contiguous()
            self.bounds, self.starts = chunks_of(plan, self.cu_seqlens)
        self.matrices = plan.chunks * plan.heads
        self.gamma = e.new_empty(e.shape[:3], dtype=torch.float32)
        self.tail = torch.empty_like(self.gamma)
        self.L = self.squares(torch.float32)
        self.sizes: dict[str, Any] = dict(
            H=plan.heads,
            C=plan.chunk,
            PACKED=plan.packed,
            PRECISION="ieee" if plan.wide else "tf32",
            num_warps=_warps(plan, e),
            # float32 tiles in flight would take the registers that the products need.
            num_stages=1 if plan.wide else 2,
        )
        self.blocks = dict(D=plan.columns, G=plan.blocks, EDGES=plan.edges, ALIGN=plan.alignment)
        self.tiles = dict(S=plan.address, BK=plan.address_tile, BV=plan.column_tile)
        width = _scan_width(plan, e)
        self.scan = dict(S=plan.address, PANELS=plan.panels(width), BK=plan.state_tile, BV=width)
        self.walks = plan.sequences * plan.heads * plan.panels(width)

    def squares(self, dtype: torch.dtype, blocks: int = 1) -> Tensor:
        """(C, C) matrices, one for every chunk, head and block of columns."""
        shape = (self.matrices * blocks, self.plan.chunk, self.plan.chunk)
        return self.gamma.new_empty(shape, dtype=dtype)

    def prepare_pairs(self, q: Tensor, s: Tensor, d: Tensor, log_alpha: Tensor, A: Tensor) -> None:
        prepare_pairs[self.matrices,](
            q, s, d, log_alpha, A, self.L, self.gamma, self.tail, self.bounds, self.plan.tokens,
            **self.sizes, S=self.plan.address, BK=self.plan.address_tile,
        )  # fmt: skip


def _warps(plan: Plan, e: Tensor) -> int:
    """Chosen so that little spills from registers; few on Blackwell, for the sake of correctness.

    There, up to version 3.7 and with more than two warps, Triton has made code for a recurrence of
    matrix products that is not deterministic (triton-lang/triton issue 10590).
    """
    if plan.wide:
        return 8  # without tensor cores
    blackwell = e.is_cuda and torch.cuda.get_device_capability(e.device)[0] == 10
    return 2 if blackwell else 4


def _scan_width(plan: Plan, e: Tensor) -> int:
    """Columns that a scan carries: few where many would leave the GPU idle."""
    many, few = plan.scan_widths
    if not e.is_cuda:
        return many
    processors = torch.cuda.get_device_properties(e.device).multi_processor_count
    walks = plan.sequences * plan.heads * plan.panels(many)
    return many if walks >= 2 * processors else few


def _states(plan: Plan, like: Tensor) -> Tensor:
    shape = (plan.sequences, plan.heads, plan.address, plan.columns)
    return like.new_empty(shape, dtype=torch.float32)

"""The gated delta rule with an erase address, a write address and strengths per column block."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fourfold.ops.checks import Shapes, check_finite, sequence_lengths
from fourfold.ops.chunked import chunked_delta_rule
from fourfold.ops.fused import FUSED_DTYPES, fused_delta_rule, wants_fused
from fourfold.ops.precision import compute_dtype, no_autocast
from fourfold.ops.sequential import sequential_delta_rule

FORMS = ("auto", "sequential", "chunked", "fused")


def delta_rule(
    *,
    q: Tensor,
    s: Tensor,
    d: Tensor,
    e: Tensor,
    log_alpha: Tensor,
    erase: Tensor,
    write: Tensor,
    initial_state: Tensor | None = None,
    output_final_state: bool = True,
    cu_seqlens: Tensor | None = None,
    form: str = "auto",
    chunk_size: int = 64,
    column_blocks: Sequence[int] | None = None,
    check: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """One recurrence for a family of memories; write first, then read.

        E_t = α_t E₋₁ + d_t (Ω_w e_t − Ω_e (α_t E₋₁)ᵀ s_t)ᵀ        y_t = E_tᵀ q_t

    Gated DeltaNet is d = s with one strength, DeltaNet has α = 1 besides, linear attention has
    Ω_e = 0, Comba and ATPM have d ≠ s. Nothing is normalised or scaled here, and growth is not
    hidden: for d ≠ s a step can lengthen the state, so a long adversarial stream can overflow.

    Shapes: B rows, T tokens, H heads, S address size, D entity columns; N = B sequences, or as
    many as ``cu_seqlens`` packs into B = 1.

    Args:
        q: (B, T, H, S) queries.
        s: (B, T, H, S) source addresses: where the old entity is predicted from.
        d: (B, T, H, S) destination addresses: where the correction is written.
        e: (B, T, H, D) entities, or values.
        log_alpha: (B, T, H) logarithm of the retention α in (0, 1].
        erase: strength Ω_e, (B, T, H) for all columns, (B, T, H, D) for each, or (B, T, H, G) with
            G ``column_blocks``. In the chunked form every block costs one triangular system, so
            one strength for each of D columns is slow; the fused form does not mind.
        write: strength Ω_w, the same shapes.
        initial_state: (N, H, S, D), zeros if None.
        output_final_state: False returns None in place of the state.
        cu_seqlens: (N + 1,) offsets of sequences packed into one row; int32 or int64.
        form: "sequential" (the token loop, the oracle), "chunked" (exact, parallel inside chunks),
            "fused" (the same algebra in kernels of our own; second derivatives go through the
            chunked form) or "auto" (fused on a CPU; elsewhere the loop for single tokens, else
            chunked: the GPU kernels have not been seen on a GPU). With NaN or infinity among the
            inputs, all but "sequential" spoil the whole chunk, earlier tokens too.
        chunk_size: C of the chunked form; changes speed and memory, not the result.
        column_blocks: widths, summing to D, of column blocks that share a strength.
        check: also look at the values: refuse NaN, infinity and positive log_alpha. Costs a pass
            over the inputs, and a synchronisation on a GPU.

    Returns:
        y (B, T, H, D) in the dtype of ``e``, and the state (N, H, S, D) in float32 (float64 if any
        input is float64) or None.

    Raises:
        TypeError, ValueError: a sentence that names the argument, what came and what is accepted.

    Source: seed 000, sections 2 to 10; gated delta rule, arXiv 2412.06464; Comba, arXiv 2506.02475.
    """
    shapes = Shapes()
    shapes.bind("q", q, "B T H S")
    shapes.bind("s", s, "B T H S")
    shapes.bind("d", d, "B T H S")
    shapes.bind("e", e, "B T H D")
    shapes.bind("log_alpha", log_alpha, "B T H")
    batch, tokens, heads, address, columns = (shapes.sizes[name] for name in "BTHSD")
    blocks = _column_blocks(column_blocks, columns)
    if blocks is None:
        shapes.bind("erase", erase, "B T H", "B T H D")
        shapes.bind("write", write, "B T H", "B T H D")
    else:
        shapes.sizes["G"] = len(blocks)
        shapes.bind("erase", erase, "B T H", "B T H G")
        shapes.bind("write", write, "B T H", "B T H G")
    lengths = sequence_lengths(cu_seqlens, batch, tokens)
    shapes.sizes["N"] = batch if lengths is None else len(lengths)
    if initial_state is not None:
        shapes.bind("initial_state", initial_state, "N H S D")
    if form not in FORMS:
        raise ValueError(f"form must be one of {', '.join(map(repr, FORMS))}; got {form!r}.")
    if not isinstance(chunk_size, int) or chunk_size < 1:
        raise ValueError(f"chunk_size must be a positive integer; got {chunk_size!r}.")

    named = dict(q=q, s=s, d=d, e=e, log_alpha=log_alpha, erase=erase, write=write)
    if check:
        given = {} if initial_state is None else {"initial_state": initial_state}
        check_finite(named | given)
        if bool((log_alpha > 0).any()):
            raise ValueError(
                "log_alpha must be at most 0, the logarithm of a retention in (0, 1]; "
                f"got up to {float(log_alpha.max()):g}."
            )

    if blocks is None:
        blocks = [columns] if erase.ndim == write.ndim == 3 else [1] * columns
    dtype = compute_dtype([*named.values(), *([] if initial_state is None else [initial_state])])
    log_alpha = log_alpha.to(dtype)
    erase, write = _per_block(erase, blocks).to(dtype), _per_block(write, blocks).to(dtype)
    if initial_state is not None:
        initial_state = initial_state.to(dtype)
    output_dtype = e.dtype
    fused = wants_fused(form, e.device) and min(address, columns) > 0
    if not fused or dtype not in (e.dtype, torch.float32) or not _alike(q, s, d, e):
        q, s, d, e = (x.to(dtype) for x in (q, s, d, e))

    with no_autocast(e.device):
        if fused:
            y, state = fused_delta_rule(
                q=q,
                s=s,
                d=d,
                e=e,
                log_alpha=log_alpha,
                erase=erase,
                write=write,
                blocks=blocks,
                initial_state=initial_state,
                cu_seqlens=cu_seqlens,
            )
            return y.to(output_dtype), state if output_final_state else None

        if initial_state is None:
            initial_state = e.new_zeros(shapes.sizes["N"], heads, address, columns)
        longest = tokens if lengths is None else max(lengths, default=0)
        if form == "sequential" or (form == "auto" and longest <= 1):
            y, state = sequential_delta_rule(
                q=q,
                s=s,
                d=d,
                e=e,
                log_alpha=log_alpha,
                erase=_per_column(erase, blocks),
                write=_per_column(write, blocks),
                state=initial_state,
                lengths=lengths,
            )
        else:
            y, state = chunked_delta_rule(
                q=q,
                s=s,
                d=d,
                e=e,
                log_alpha=log_alpha,
                erase=erase.unbind(-1),
                write=write.unbind(-1),
                blocks=blocks,
                state=initial_state,
                lengths=lengths,
                chunk_size=chunk_size,
            )
    return y.to(output_dtype), state if output_final_state else None


def _column_blocks(column_blocks: Sequence[int] | None, columns: int) -> list[int] | None:
    if column_blocks is None:
        return None
    blocks = list(column_blocks)
    if not blocks or any(width < 0 for width in blocks) or sum(blocks) != columns:
        raise ValueError(
            f"column_blocks must be non-negative widths that sum to D = {columns}; got {blocks}."
        )
    return blocks


def _alike(*tensors: Tensor) -> bool:
    """Whether kernels can read all of them as they are."""
    first = tensors[0]
    return all(x.dtype == first.dtype for x in tensors) and first.dtype in FUSED_DTYPES.get(
        first.device.type, ()
    )


def _per_block(strength: Tensor, blocks: list[int]) -> Tensor:
    """(B, T, H) or (B, T, H, G) -> (B, T, H, G)."""
    return strength if strength.ndim == 4 else strength[..., None].expand(-1, -1, -1, len(blocks))


def _per_column(strength: Tensor, blocks: list[int]) -> Tensor:
    """(B, T, H, G) -> one that broadcasts over (B, T, H, D)."""
    if len(blocks) == 1:
        return strength
    parts = zip(strength.split(1, -1), blocks, strict=True)
    return torch.cat([part.expand(*part.shape[:-1], width) for part, width in parts], -1)

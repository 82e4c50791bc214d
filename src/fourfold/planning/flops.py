"""Floating-point operations of a model, by formula.

A multiplication and an addition count as two operations. What is counted is what grows with a
product of two sizes; norms, activations, gates, rotations, unit vectors and softmax grow with one
and are left out, as is usual (arXiv 2001.08361, appendix of 2204.02311).

For one token:

    matrices     2 for each number in them: x W takes one multiplication and one addition with each.
                 So for linear maps, for an LSTM's, for ATPM's A_K, A_V and C of every head, for the
                 short convolution's filters, and for the output map, be it the embedding or not.
    delta rule   7 H S D, from the recurrence as ``fourfold.ops.sequential`` writes it, for a state
                 of S × D numbers in each of H heads: S D for the decay α E, 2 S D each for
                 Eᵀ s, for E + d uᵀ, and for Eᵀ q. The same for the whole family: one operator
                 computes all of it, also where α = 1 or nothing is erased. The chunked forms do
                 more, to do it side by side; that is their price and no use of the model.
    attention    4 H Dh L: 2 Dh for q·k and 2 Dh for the sum of values, in each of H heads, for each
                 of the L positions that are seen. L is the mean over a context: (context + 1) / 2,
                 less where a window bounds it.
    pairs        the same for each memory of Memory Mosaics, with the L pairs in its reach, and
                 3 H Dh for the recurrence of its keys.

A backward pass takes twice the forward pass: the gradient of each product is two of its size.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from torch import nn

from fourfold.layers import LSTM, AssociativeMemory, Attention, MemoryLayer, SideBySide
from fourfold.layers.delta_family import DeltaFamilyLayer
from fourfold.models import FourfoldForCausalLM
from fourfold.models.modeling import FeedForward


def forward_flops(model: FourfoldForCausalLM, context: int) -> dict[str, float]:
    """Operations of a forward pass for one token, by part, on average over ``context`` tokens.

    Args:
        model: with numbers or without, on any device.
        context: tokens that are read from an empty memory.

    Raises:
        ValueError: a memory layer whose operations are not known.
    """
    memories = list(model.memories())
    feed_forwards = [module for module in model.modules() if isinstance(module, FeedForward)]
    return {
        "matrices of memory layers": float(sum(map(matrix_flops, memories))),
        "recurrence or attention": sum(state_flops(memory, context) for memory in memories),
        "feed-forward": float(sum(map(matrix_flops, feed_forwards))),
        "output": float(matrix_flops(model.lm_head)),
    }


def training_flops(parts: dict[str, float], *, checkpointing: bool) -> float:
    """Operations of training for one token: forward and backward.

    Args:
        parts: what ``forward_flops`` returns.
        checkpointing: whether the layers, not the output, are computed once more.
    """
    forward = sum(parts.values())
    return 3 * forward + (forward - parts["output"] if checkpointing else 0)


def matrix_flops(module: nn.Module) -> int:
    """Operations for one token with all matrices in ``module``."""
    return 2 * sum(x.numel() for x in module.parameters() if x.ndim >= 2)


@singledispatch
def state_flops(memory: MemoryLayer[Any], context: int) -> float:
    """Operations for one token with the state, on average over ``context`` tokens.

    Raises:
        ValueError: nobody has said how many they are for this kind of memory.
    """
    raise ValueError(
        f"The operations of {type(memory).__name__} with its state are not known; say how many "
        "they are by fourfold.planning.flops.state_flops.register."
    )


@state_flops.register
def _(memory: DeltaFamilyLayer, context: int) -> float:
    return 7.0 * memory.num_heads * memory.address_dim * memory.columns


@state_flops.register
def _(memory: Attention, context: int) -> float:
    seen = mean_seen(context, memory.sliding_window) - mean_seen(context, memory.delay)
    return 4 * memory.num_heads * memory.head_dim * seen


@state_flops.register
def _(memory: LSTM, context: int) -> float:
    return 0.0  # its matrices are all there is


@state_flops.register
def _(memory: AssociativeMemory, context: int) -> float:
    size = memory.num_heads * memory.head_dim
    # Pairs from t − window + 1 to t − delay: those of attention without its newest ones.
    seen = mean_seen(context, memory.window) - mean_seen(context, memory.delay)
    return 4 * size * max(0.0, seen) + 3 * size


@state_flops.register
def _(memory: SideBySide, context: int) -> float:
    return sum(state_flops(part, context) for part in memory.named_memories().values())


def mean_seen(context: int, window: int | None) -> float:
    """Positions that attention sees, itself included, on average over ``context`` tokens."""
    full = context if window is None else min(context, window)
    return (full * (full + 1) / 2 + (context - full) * full) / context

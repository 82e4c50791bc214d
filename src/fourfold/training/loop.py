"""A short training run: one loop, whatever the batches are."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fourfold.layers.short_convolution import ShortConvolution
from fourfold.models import FourfoldForCausalLM


@dataclass(frozen=True)
class FitOptions:
    """How long and how fast a model is trained.

    Attributes:
        steps: updates.
        learning_rate: at the peak; it rises over warmup_steps and falls on a cosine.
        warmup_steps: updates until the peak.
        final_share: of the peak, at the end.
        weight_decay: on matrices; not on embeddings, gains, biases, decays and short filters.
        gradient_clip: bound on the norm of the gradient.
    """

    steps: int = 150
    learning_rate: float = 4e-3
    warmup_steps: int = 15
    final_share: float = 0.1
    weight_decay: float = 0.1
    gradient_clip: float = 1.0


@dataclass(frozen=True)
class TrainingOptions(FitOptions):
    """How a model is trained on a stream of tokens.

    Attributes:
        batch_size: windows a step.
        sequence_length: tokens a window; each is read from an empty memory.
        seed: of the windows drawn.
    """

    batch_size: int = 16
    sequence_length: int = 256
    seed: int = 0


@dataclass(frozen=True)
class Step:
    """What a step reports.

    Attributes:
        step: updates done.
        loss: of this step, nats a token.
        tokens_per_second: since the first step, which may compile kernels and counts only while
            there is no other; time spent in ``on_step`` does not count.
    """

    step: int
    loss: float
    tokens_per_second: float


def train(
    model: FourfoldForCausalLM,
    stream: Tensor,
    options: TrainingOptions,
    on_step: Callable[[Step], None],
) -> None:
    """Train ``model`` in place on windows drawn at random from ``stream`` (tokens,).

    The windows depend on options.seed alone, so that every model sees the same.

    Raises:
        ValueError: the stream is shorter than a window.
        ArithmeticError: the loss is no longer finite.
    """
    length = options.sequence_length
    if len(stream) <= length:
        raise ValueError(
            f"Training on windows of {length} tokens needs more than that; got {len(stream)}."
        )
    draw = torch.Generator().manual_seed(options.seed)

    def next_loss(step: int) -> tuple[Tensor, int]:
        starts = torch.randint(len(stream) - length, (options.batch_size,), generator=draw)
        batch = torch.stack([stream[start : start + length] for start in starts]).long()
        return model(batch, labels=batch).loss, batch.numel()

    fit(model, next_loss, options, on_step)


def fit(
    model: nn.Module,
    next_loss: Callable[[int], tuple[Tensor, int]],
    options: FitOptions,
    on_step: Callable[[Step], None],
) -> None:
    """Train ``model`` in place.

    Args:
        next_loss: gives the loss of a step, counted from 1, and the tokens it is of.

    Raises:
        ArithmeticError: the loss is no longer finite.
    """
    optimizer = make_optimizer(model, options)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate_share(step, options))
    model.train()
    seconds, tokens = 0.0, 0
    for step in range(1, options.steps + 1):
        if step == 2:
            seconds, tokens = 0.0, 0  # the first step may have compiled
        began = time.perf_counter()
        loss, count = next_loss(step)
        value = loss.item()
        if not math.isfinite(value):
            raise ArithmeticError(f"The loss became {value} at step {step}.")
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), options.gradient_clip)
        optimizer.step()
        schedule.step()
        seconds += time.perf_counter() - began
        tokens += count
        on_step(Step(step, value, tokens / seconds))


def make_optimizer(model: nn.Module, options: FitOptions) -> torch.optim.AdamW:
    """AdamW over ``parameter_groups``, all parameters in one call."""
    groups = parameter_groups(model, options.weight_decay)
    return torch.optim.AdamW(groups, lr=options.learning_rate, betas=(0.9, 0.95), fused=True)


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, object]]:
    """Matrices with decay; embeddings, gains, biases, decays and short filters without."""
    spared = {
        id(parameter)
        for module in model.modules()
        if isinstance(module, (nn.Embedding, ShortConvolution))
        for parameter in module.parameters(recurse=False)
    }
    decayed: list[nn.Parameter] = []
    free: list[nn.Parameter] = []
    for parameter in model.parameters():
        matrix = parameter.ndim >= 2 and id(parameter) not in spared
        (decayed if matrix else free).append(parameter)
    return [
        {"params": decayed, "weight_decay": weight_decay},
        {"params": free, "weight_decay": 0.0},
    ]


def rate_share(step: int, options: FitOptions) -> float:
    """Share of the peak rate before update ``step`` (from 0): warm-up, then cosine to the last."""
    if step < options.warmup_steps:
        return (step + 1) / options.warmup_steps
    progress = (step - options.warmup_steps) / max(1, options.steps - options.warmup_steps)
    fallen = 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))
    return options.final_share + (1 - options.final_share) * fallen

"""How fast a recipe's model trains here."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from fourfold.benchmarks.machine import best_device, device_model
from fourfold.benchmarks.memory import peak_bytes
from fourfold.benchmarks.timing import alternate
from fourfold.models import FourfoldConfig, FourfoldForCausalLM
from fourfold.training.loop import FitOptions, make_optimizer
from fourfold.training.recipe import Recipe


@dataclass(frozen=True)
class Speed:
    """What was measured.

    Attributes:
        device: its name.
        threads: of torch on a CPU; None elsewhere.
        tokens_per_second: of training steps, from their median time.
        passing_bytes: at the peak of a forward and backward pass, on top of weights, gradients and
            AdamW's moments.
        window_tokens: that such a pass reads.
    """

    device: str
    threads: int | None
    tokens_per_second: float
    passing_bytes: int
    window_tokens: int


def measure_speed(recipe: Recipe, config: FourfoldConfig, *, steps: int = 3) -> Speed:
    """Train on random tokens, in the recipe's windows and precision, on a GPU if there is one.

    Every window is read from an empty memory; what it costs to read text and to carry a state from
    window to window is not in it.

    Args:
        config: of the model, for a tokenizer that is known.
        steps: that count; two more come before them, of which the first compiles.

    Raises:
        ValueError: a step failed, for want of memory perhaps.
    """
    device = best_device()
    training = recipe.training
    torch.manual_seed(training.seed)
    model = FourfoldForCausalLM(config).to(device).train()
    if training.gradient_checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    rates = FitOptions(learning_rate=training.learning_rate, weight_decay=training.weight_decay)
    optimizer = make_optimizer(model, rates)
    size = (training.batch_size, training.sequence_length)

    def window() -> None:
        batch = torch.randint(config.vocab_size, size, device=device)
        half = training.precision == "bfloat16"
        with torch.autocast(device, dtype=torch.bfloat16, enabled=half):
            loss = model(batch, labels=batch).loss
        (loss / training.accumulation).backward()

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        for _ in range(training.accumulation):
            window()
        nn.utils.clip_grad_norm_(model.parameters(), training.gradient_clip)
        optimizer.step()

    measured = alternate({"A training step": step}, steps, turn_seconds=0, device=device)
    for name, reason in measured.dropped.items():
        raise ValueError(f"{name} cannot be measured: {reason}")
    (timing,) = measured.timings.values()
    return Speed(
        device=device_model(device),
        threads=torch.get_num_threads() if device == "cpu" else None,
        tokens_per_second=training.tokens_per_step / timing.median,
        passing_bytes=peak_bytes(window, device),  # the gradients of the last step are still there
        window_tokens=size[0] * size[1],
    )

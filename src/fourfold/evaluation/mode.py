"""Measuring a model that may be in training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def measuring(model: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; afterwards the mode that ``model`` was in."""
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(training)

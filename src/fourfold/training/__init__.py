"""Training models."""

from fourfold.training.loop import Step, TrainingOptions, train

__all__ = ["Step", "TrainingOptions", "train"]

"""Training models."""

from fourfold.training.loop import FitOptions, Step, TrainingOptions, fit, train

__all__ = ["FitOptions", "Step", "TrainingOptions", "fit", "train"]

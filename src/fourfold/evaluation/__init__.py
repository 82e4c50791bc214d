"""Measures of a trained model."""

from fourfold.evaluation.bits import bits_per_byte, windows

__all__ = ["bits_per_byte", "windows"]

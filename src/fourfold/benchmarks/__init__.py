"""Time, memory and decoding of the operators, and of a training step, side by side in one run."""

"""How much a memory holds, and when it saturates."""

from fourfold.capacity.ideal import CapacityStudy
from fourfold.capacity.model_streams import model_stream, worst_pair
from fourfold.capacity.streams import operator_streams
from fourfold.capacity.theory import (
    expected_accuracy,
    expected_error,
    expected_square_norm,
    weights,
)
from fourfold.capacity.trained import trained_capacity, trained_interference

__all__ = [
    "CapacityStudy",
    "expected_accuracy",
    "expected_error",
    "expected_square_norm",
    "model_stream",
    "operator_streams",
    "trained_capacity",
    "trained_interference",
    "weights",
    "worst_pair",
]

"""How much a memory holds, and when it saturates."""

from fourfold.capacity.ideal import CapacityStudy
from fourfold.capacity.streams import model_stream, operator_streams
from fourfold.capacity.theory import expected_error
from fourfold.capacity.trained import trained_capacity

__all__ = [
    "CapacityStudy",
    "expected_error",
    "model_stream",
    "operator_streams",
    "trained_capacity",
]

"""Pure functions on tensors: what a memory computes. No modules, no configuration, no files."""

from fourfold.ops.associative_read import associative_read
from fourfold.ops.atpm import atpm
from fourfold.ops.delta_rule import delta_rule
from fourfold.ops.gated_keys import gated_keys
from fourfold.ops.kernels import without_kernels
from fourfold.ops.transport import recall, transport, transport_proposal

__all__ = [
    "associative_read",
    "atpm",
    "delta_rule",
    "gated_keys",
    "recall",
    "transport",
    "transport_proposal",
    "without_kernels",
]

"""Pure functions on tensors: what a memory computes. No modules, no configuration, no files."""

from fourfold.ops.atpm import atpm
from fourfold.ops.delta_rule import delta_rule
from fourfold.ops.kernels import without_kernels
from fourfold.ops.transport import recall, transport, transport_proposal

__all__ = ["atpm", "delta_rule", "recall", "transport", "transport_proposal", "without_kernels"]

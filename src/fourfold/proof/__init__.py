"""Proving that a memory layer computes the same however its tokens arrive, and what was meant."""

from fourfold.proof.properties import PROPERTIES
from fourfold.proof.prove import TOLERANCE, Finding, prove, settled

__all__ = ["PROPERTIES", "TOLERANCE", "Finding", "prove", "settled"]

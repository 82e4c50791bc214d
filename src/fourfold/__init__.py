"""fourfold: memory for language models. Read, Remember, Revise, Rewrite."""

from fourfold.models import (
    ByteTokenizer,
    FourfoldCache,
    FourfoldConfig,
    FourfoldForCausalLM,
    FourfoldModel,
    register_layer,
)
from fourfold.sessions import Session

__all__ = [
    "ByteTokenizer",
    "FourfoldCache",
    "FourfoldConfig",
    "FourfoldForCausalLM",
    "FourfoldModel",
    "Session",
    "register_layer",
]

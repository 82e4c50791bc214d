"""fourfold: memory for language models. Read, Remember, Revise, Rewrite."""

from fourfold.models import (
    ByteTokenizer,
    FourfoldCache,
    FourfoldConfig,
    FourfoldForCausalLM,
    FourfoldModel,
)

__all__ = [
    "ByteTokenizer",
    "FourfoldCache",
    "FourfoldConfig",
    "FourfoldForCausalLM",
    "FourfoldModel",
]

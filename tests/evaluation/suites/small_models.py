"""Models of both libraries that answer in no time, their weights large enough to matter."""

from __future__ import annotations

from transformers import LlamaConfig, LlamaForCausalLM

from fourfold.models import FourfoldConfig, FourfoldForCausalLM

SIZES = dict(hidden_size=16, num_attention_heads=2, initializer_range=0.3)


def ours(layer: str, **fields) -> FourfoldForCausalLM:
    """Two layers of one memory."""
    return FourfoldForCausalLM(FourfoldConfig(layer_types=[layer] * 2, **SIZES | fields)).eval()


def llama(**fields) -> LlamaForCausalLM:
    """One layer, and the vocabulary of bytes, unless told otherwise."""
    sizes = SIZES | dict(vocab_size=259, num_hidden_layers=1, intermediate_size=24)
    return LlamaForCausalLM(LlamaConfig(**sizes | fields)).eval()

"""Small models of every kind, for the tests of models and sessions."""

from __future__ import annotations

import torch

from fourfold import FourfoldConfig, FourfoldForCausalLM

KINDS = {
    "atpm": dict(layer_types=["atpm"] * 2),
    "atpm without its three freedoms": dict(
        layer_types=["atpm"] * 2, atpm_rho=0.0, atpm_lambda=0.0, atpm_joint_beta=True
    ),
    "gated_deltanet": dict(layer_types=["gated_deltanet"] * 2),
    "deltanet": dict(layer_types=["deltanet"] * 2),
    "linear_attention": dict(layer_types=["linear_attention"] * 2),
    "comba": dict(layer_types=["comba"] * 2),
    "attention": dict(layer_types=["attention"] * 2),
    "lstm": dict(layer_types=["lstm"] * 2),
    "hybrid of atpm and windowed attention": dict(
        layer_types=["atpm", "attention", "atpm"], sliding_window=6, num_key_value_heads=1
    ),
    "mosaic": dict(
        layer_types=["mosaic"] * 2,
        mosaic_window=5,
        mosaic_delay=3,
        mosaic_training_delay=[3, 3],
    ),
    "mosaic_v1": dict(layer_types=["mosaic_v1"] * 2),
    "attention_long_short": dict(
        layer_types=["attention_long_short"] * 2,
        mosaic_window=5,
        mosaic_delay=3,
        mosaic_training_delay=[3, 3],
    ),
    "hybrid of all": dict(
        layer_types=["comba", "lstm", "gated_deltanet", "attention", "linear_attention", "deltanet"]
    ),
}


def build(kind: str, **changes) -> FourfoldForCausalLM:
    """A model in evaluation mode whose weights are large enough for its memory to matter."""
    torch.manual_seed(3)
    settings = dict(
        vocab_size=64,
        hidden_size=16,
        num_attention_heads=2,
        intermediate_size=24,
        chunk_size=8,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=None,
    )
    model = FourfoldForCausalLM(FourfoldConfig(**settings | KINDS[kind] | changes)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def random_tokens(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(4)
    return torch.randint(1, 64, shape, generator=generator)

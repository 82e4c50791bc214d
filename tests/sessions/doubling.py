"""A real model whose ATPM layer receives the stream that doubles a state every two tokens."""

from __future__ import annotations

import math

import torch

from fourfold import FourfoldConfig, FourfoldForCausalLM

STREAM = [0, 1] * 200


def doubling_model() -> FourfoldForCausalLM:
    """One layer, one head; tokens 0 and 1 are addresses 44° apart with opposite proposals."""
    torch.manual_seed(0)
    config = FourfoldConfig(
        vocab_size=259,
        hidden_size=8,
        num_attention_heads=1,
        head_dim=4,
        expand_v=0.75,
        atpm_key_dim=2,
        transport_rank=2,
        conv_size=0,
        layer_types=["atpm"],
    )
    model = FourfoldForCausalLM(config).eval()
    layer = next(model.memories())
    angle = math.radians(44)
    sources = torch.tensor([[1.0, 0, 0, 0], [math.cos(angle), math.sin(angle), 0, 0]])
    tangents = torch.tensor([[0.0, 1, 0, 0], [math.sin(angle), -math.cos(angle), 0, 0]])
    with torch.no_grad():
        model.model.embed_tokens.weight.copy_(0.02 * torch.randn(259, 8))
        model.model.embed_tokens.weight[:2] = torch.eye(8)[:2]
        # Rows of in_proj are q, s, k, v; large values pass silu almost unchanged.
        layer.in_proj.weight.zero_()
        layer.in_proj.weight[0:4, :2] = 20 * sources.T
        layer.in_proj.weight[4:8, :2] = 20 * sources.T
        layer.in_proj.weight[8:10, :2] = 20 * torch.eye(2)
        layer.in_proj.weight[10, :2] = 20
        layer.a_k.copy_(torch.eye(2)[None])
        layer.a_v.fill_(1)
        layer.c.copy_(1000 * tangents.T[None])
        layer.beta_proj.weight.zero_()
        layer.beta_proj.weight[:, :2] = 10
        layer.controller.bias.fill_(20)
        layer.decay.A_log.fill_(-60)
    return model

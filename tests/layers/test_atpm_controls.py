"""ATPM with some of its freedom taken away: the controls of a comparison."""

from __future__ import annotations

import pytest
import torch

from fourfold import FourfoldConfig, FourfoldForCausalLM
from fourfold.layers import ATPM
from fourfold.ops import delta_rule

SIZES = dict(hidden_size=24, num_heads=3, head_dim=8, key_dim=4, value_dim=12)


def shaken(**fixed):
    """A layer in float64 whose every parameter matters, with what it makes of some tokens."""
    torch.manual_seed(2)
    layer = ATPM(**SIZES, **fixed).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(torch.randn_like(parameter))
    x = torch.randn(2, 30, 24, dtype=torch.float64)
    streams, _ = layer.project(x, None, None)
    return layer, x, streams, layer.coordinates(x, streams)


def test_without_all_three_it_is_the_gated_delta_rule():
    layer, _, streams, c = shaken(rho=0.0, lam=0.0, joint_beta=True)
    rule, _ = delta_rule(
        q=c["q"],
        s=c["s"],
        d=c["s"],
        e=torch.cat([streams["k"], streams["v"]], -1),
        log_alpha=c["log_alpha"],
        erase=c["beta_v"],
        write=c["beta_v"],
        form="sequential",
    )
    own, _ = layer.operator(**c, form="sequential")
    torch.testing.assert_close(own, rule, rtol=0, atol=1e-12)
    free, *_ = shaken()
    assert layer.controller is layer.a_k is layer.a_v is layer.c is None
    assert layer.beta_proj.weight.shape == (3, 24)
    assert free.beta_proj.weight.shape == (6, 24)


@pytest.mark.parametrize("name", ["rho", "lam"])
def test_a_fixed_coordinate_is_the_same_for_every_token_and_the_other_is_learned(name):
    layer, _, _, c = shaken(**{name: 0.25})
    other = {"rho": "lam", "lam": "rho"}[name]
    assert torch.equal(c[name], torch.full_like(c[name], 0.25))
    assert c[other].std() > 0.1
    assert layer.controller.weight.shape == (3, 24)


def test_nothing_is_proposed_where_nothing_is_transported():
    layer, _, _, c = shaken(rho=0.0)
    assert not c["b"].any()
    assert not [name for name, _ in layer.named_parameters() if name in ("a_k", "a_v", "c")]
    assert c["lam"].std() > 0.1


def test_one_strength_for_both_views():
    _, _, _, joint = shaken(joint_beta=True)
    _, _, _, split = shaken()
    assert torch.equal(joint["beta_k"], joint["beta_v"])
    assert (split["beta_k"] - split["beta_v"]).abs().mean() > 0.1


@pytest.mark.parametrize("fixed", [dict(rho=1.5), dict(lam=-0.1)])
def test_a_coordinate_outside_its_range_is_refused(fixed):
    (name,) = fixed
    with pytest.raises(ValueError, match=rf"{name} must lie in \[0, 1\] or be None"):
        ATPM(**SIZES, **fixed)


def test_a_model_is_saved_and_loaded_with_its_controls(tmp_path):
    config = FourfoldConfig(
        vocab_size=20,
        hidden_size=16,
        num_attention_heads=2,
        layer_types=["atpm"],
        atpm_rho=0.0,
        atpm_lambda=0.5,
        atpm_joint_beta=True,
        decay_init="log_spaced",
        decay_times=(16, 64),
    )
    model = FourfoldForCausalLM(config).eval()
    model.save_pretrained(tmp_path)
    again = FourfoldForCausalLM.from_pretrained(tmp_path).eval()
    assert again.config.identity() == config.identity()
    tokens = torch.arange(12)[None]
    assert torch.equal(again(tokens).logits, model(tokens).logits)
    (layer,) = again.memories()
    times = -1 / layer.decay(torch.zeros(1, 1, 16))[0].detach().flatten()
    torch.testing.assert_close(times, torch.tensor([16.0, 64.0]), rtol=3e-2, atol=0)

"""How layers start."""

from __future__ import annotations

import pytest
import torch

from fourfold import FourfoldConfig, FourfoldForCausalLM
from fourfold.layers import ATPM, LSTM, GatedDeltaNet
from fourfold.layers.decay import Decay

ATPM_SIZES = dict(hidden_size=32, num_heads=2, head_dim=16, key_dim=16, value_dim=16)


def first_step(decay):
    return decay(torch.zeros(1, 1, 8))[1].detach().flatten()


def test_published_decays_lie_in_the_published_ranges():
    decay = Decay(8, 5000, "published")
    decay.reset_parameters()
    a = decay.A_log.detach().exp()
    assert a.min() > 0
    assert a.max() < 16
    assert abs(float(a.mean()) - 8) < 0.3
    step = first_step(decay)
    assert step.min() > 0.00099
    assert step.max() < 0.101
    assert abs(float(step.log().mean()) - torch.tensor([0.001, 0.1]).log().mean()) < 0.1


def test_log_spaced_decays_reach_from_4_to_4096_tokens():
    decay = Decay(8, 6, "log_spaced")
    decay.reset_parameters()
    tokens = -1 / decay(torch.zeros(1, 1, 8))[0].detach().flatten()
    assert abs(float(tokens[0]) - 4) < 0.01
    assert abs(float(tokens[-1]) - 4096) < 10
    ratios = tokens[1:] / tokens[:-1]
    torch.testing.assert_close(ratios, torch.full_like(ratios, 4.0), rtol=1e-2, atol=0)


def test_proposals_start_short_but_their_gradients_do_not_vanish():
    layer = ATPM(**ATPM_SIZES | {"hidden_size": 64, "head_dim": 32, "value_dim": 48})
    x = torch.randn(2, 40, 64)
    c = layer.coordinates(x, layer.project(x, None, None)[0])
    assert c["b"].norm(dim=-1).mean() < 0.3
    c["b"].square().sum().backward()
    assert layer.c.grad.abs().mean() > 1e-3
    assert layer.a_k.grad.abs().max() > 0


@pytest.mark.parametrize("layer", [lambda: ATPM(**ATPM_SIZES), lambda: started("atpm")])
def test_atpm_asks_at_first_for_what_it_would_write_four_times_as_long(layer):
    weight = layer().in_proj.weight.detach()
    assert torch.equal(weight[:32], 4 * weight[32:64])
    assert weight[32:64].std() > 0


def started(kind):
    """The first layer alone and inside a model, which initialises it by transformers' rules."""
    sizes = dict(hidden_size=32, num_attention_heads=2, layer_types=[kind], initializer_range=0.05)
    model = FourfoldForCausalLM(FourfoldConfig(**sizes, decay_init="log_spaced"))
    return next(model.memories())


@pytest.mark.parametrize("layer", [lambda: LSTM(hidden_size=32), lambda: started("lstm")])
def test_the_forget_gate_of_an_lstm_starts_open(layer):
    cell = layer().cell
    gates = (cell.bias_ih_l0 + cell.bias_hh_l0).unflatten(0, (4, 32))
    assert torch.equal(gates[1], torch.ones(32))
    assert torch.equal(gates[[0, 2, 3]], torch.zeros(3, 32))
    for weight in (cell.weight_ih_l0, cell.weight_hh_l0):
        assert 0.95 * 32**-0.5 < weight.abs().max() <= 32**-0.5


def test_a_model_starts_its_layers_as_they_start_themselves():
    layer = started("atpm")
    assert torch.equal(layer.controller.weight, torch.zeros(4, 32))
    assert torch.equal(layer.controller.bias, torch.zeros(4))
    assert abs(float(layer.c.detach().std()) - 0.05) < 0.01
    assert abs(float(layer.a_v.detach().std()) - layer.a_v.shape[-1] ** -0.5) < 0.03
    assert abs(float(layer.in_proj.weight[32:].detach().std()) - 0.05) < 0.005
    assert layer.convolution.weight.abs().max() > 0.4
    tokens = -1 / layer.decay(torch.zeros(1, 1, 32))[0].detach().flatten()
    torch.testing.assert_close(tokens, torch.tensor([4.0, 4096.0]), rtol=1e-2, atol=0)
    comba = started("comba")
    assert torch.equal(comba.correction, torch.full((2,), 0.02))
    assert torch.equal(comba.feedback, torch.ones(2))


def test_a_seed_decides_the_weights():
    def build():
        torch.manual_seed(5)
        return GatedDeltaNet(hidden_size=8, num_heads=2, head_dim=4, value_dim=4).state_dict()

    first, second = build(), build()
    assert all(torch.equal(first[name], second[name]) for name in first)

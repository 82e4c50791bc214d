"""How layers start."""

from __future__ import annotations

import torch

from fourfold.layers import ATPM, LSTM, GatedDeltaNet
from fourfold.layers.decay import Decay


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
    layer = ATPM(hidden_size=64, num_heads=2, head_dim=32, key_dim=16, value_dim=48)
    x = torch.randn(2, 40, 64)
    c = layer.coordinates(x, layer.project(x, None, None)[0])
    assert c["b"].norm(dim=-1).mean() < 0.3
    c["b"].square().sum().backward()
    assert layer.c.grad.abs().mean() > 1e-3
    assert layer.a_k.grad.abs().max() > 0


def test_the_forget_gate_of_an_lstm_starts_open():
    layer = LSTM(hidden_size=6)
    gates = (layer.cell.bias_ih_l0 + layer.cell.bias_hh_l0).unflatten(0, (4, 6))
    assert torch.equal(gates[1], torch.ones(6))
    assert torch.equal(gates[[0, 2, 3]], torch.zeros(3, 6))


def test_a_seed_decides_the_weights():
    def build():
        torch.manual_seed(5)
        return GatedDeltaNet(hidden_size=8, num_heads=2, head_dim=4, value_dim=4).state_dict()

    first, second = build(), build()
    assert all(torch.equal(first[name], second[name]) for name in first)

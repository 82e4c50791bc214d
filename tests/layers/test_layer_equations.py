"""Each layer of the family gives the operator what its equation says."""

from __future__ import annotations

import pytest
import torch

from fourfold.layers import ATPM, Comba, DeltaNet, GatedDeltaNet, LinearAttention

SIZES = dict(hidden_size=16, num_heads=2, head_dim=6, value_dim=5, decay_init="log_spaced")


def setting(layer):
    layer = layer.double()
    x = torch.randn(1, 30, 16, dtype=torch.float64)
    streams, _ = layer.project(x, None, None)
    return layer, x, streams, layer.coordinates(x, streams)


def read(layer, x, step, queries, D):
    """Token loop for the layer's first row: E is (H, S, D); ``step`` gives the next one."""
    E = torch.zeros(2, 6, D, dtype=torch.float64)
    outputs = []
    for t in range(x.shape[1]):
        E = step(E, t)
        outputs.append(torch.einsum("hsd,hs->hd", E, queries[0, t]))
    y = layer.norm(torch.stack(outputs)[None]).flatten(-2)
    if layer.gate_proj is not None:
        y = y * layer.gate(layer.gate_proj(x))
    return layer.out_proj(y)


def unit(x):
    return x / x.norm(dim=-1, keepdim=True)


def outer(a, b):
    return torch.einsum("hs,hd->hsd", a, b)


def gates(layer, x):
    alpha = layer.decay(x)[0].exp()[0, ..., None, None]
    return alpha, layer.beta_proj(x).sigmoid()[0, ..., None]


def test_gated_deltanet():
    layer, x, streams, _ = setting(GatedDeltaNet(**SIZES))
    k, v, q = unit(streams["k"])[0], streams["v"][0], unit(streams["q"]) / 6**0.5
    alpha, beta = gates(layer, x)

    def step(E, t):
        E = alpha[t] * E
        return E + outer(k[t], beta[t] * (v[t] - torch.einsum("hsd,hs->hd", E, k[t])))

    torch.testing.assert_close(layer(x)[0], read(layer, x, step, q, 5))


def test_deltanet():
    sizes = {name: value for name, value in SIZES.items() if name != "decay_init"}
    layer, x, streams, _ = setting(DeltaNet(**sizes))
    k, v, q = unit(streams["k"])[0], streams["v"][0], unit(streams["q"]) / 6**0.5
    beta = layer.beta_proj(x).sigmoid()[0, ..., None]

    def step(E, t):
        return E + outer(k[t], beta[t] * (v[t] - torch.einsum("hsd,hs->hd", E, k[t])))

    assert layer.gate_proj is None
    torch.testing.assert_close(layer(x)[0], read(layer, x, step, q, 5))


def test_linear_attention():
    layer, x, streams, _ = setting(LinearAttention(**SIZES))
    k, v = streams["k"][0], streams["v"][0]
    log_alpha, delta = layer.decay(x)
    torch.testing.assert_close(log_alpha, -layer.decay.A_log.exp() * delta)

    def step(E, t):
        return log_alpha[0, t, :, None, None].exp() * E + outer(k[t], delta[0, t, :, None] * v[t])

    torch.testing.assert_close(layer(x)[0], read(layer, x, step, streams["q"], 5))


def test_comba():
    layer, x, streams, _ = setting(Comba(**SIZES, correction=0.3))
    k, v = unit(streams["k"])[0], streams["v"][0]
    q = (unit(streams["q"]) - 0.3 * unit(streams["k"])) / 6**0.5
    alpha, beta = gates(layer, x)
    feedback = layer.feedback.sigmoid()[:, None]

    def step(E, t):
        predicted = torch.einsum("hsd,hs->hd", E, feedback * k[t])
        return alpha[t] * E + outer(k[t], beta[t] * (v[t] - predicted))

    torch.testing.assert_close(layer(x)[0], read(layer, x, step, q, 5))


def test_comba_survives_a_decay_that_wipes_the_state():
    layer = Comba(**SIZES)
    with torch.no_grad():
        layer.decay.dt_bias.fill_(200.0)
    x = torch.randn(1, 20, 16, requires_grad=True)
    y, state = layer(x)
    y.sum().backward()
    assert torch.isfinite(y).all()
    assert torch.isfinite(state.memory).all()
    assert torch.isfinite(x.grad).all()


@pytest.mark.parametrize("unit_query", (True, False))
def test_atpm_query_is_of_unit_norm_only_if_asked(unit_query):
    layer = ATPM(**SIZES, key_dim=3, unit_query=unit_query)
    _, _, streams, c = setting(layer)
    expected = unit(streams["q"]) if unit_query else streams["q"]
    torch.testing.assert_close(c["q"], expected)

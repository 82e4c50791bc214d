"""Each layer of the family gives the operator what its equation says."""

from __future__ import annotations

import pytest
import torch

from fourfold.layers import (
    ATPM,
    LSTM,
    Attention,
    Comba,
    DeltaNet,
    GatedDeltaNet,
    LinearAttention,
)

SIZES = dict(hidden_size=16, num_heads=2, head_dim=6, value_dim=5, decay_init="log_spaced")


def streams_of(layer, x):
    """What is projected, convolved and activated, by torch's own convolution and by hand."""
    projected = (x @ layer.in_proj.weight.T).mT
    width, channels = layer.convolution.weight.shape
    filters = layer.convolution.weight.T[:, None]
    padded = torch.nn.functional.pad(projected, (width - 1, 0))
    convolved = torch.nn.functional.conv1d(padded, filters, groups=channels).mT
    activated = convolved * torch.sigmoid(convolved)
    parts = activated.split([2 * width for width in layer.streams.values()], -1)
    return {
        name: part.reshape(1, -1, 2, part.shape[-1] // 2)
        for name, part in zip(layer.streams, parts, strict=True)
    }


def setting(layer):
    layer = layer.double()
    with torch.no_grad():
        layer.norm.weight.uniform_(0.5, 2)
    x = torch.randn(1, 30, 16, dtype=torch.float64)
    return layer, x, streams_of(layer, x)


SILU, SIGMOID = (lambda x: x * torch.sigmoid(x)), torch.sigmoid


def read(layer, x, step, queries, gate=SILU, D=5):
    """Token loop for one row: E is (H, S, D); ``step`` gives the next one."""
    E = torch.zeros(2, 6, D, dtype=torch.float64)
    outputs = []
    for t in range(x.shape[1]):
        E = step(E, t)
        outputs.append(torch.einsum("hsd,hs->hd", E, queries[0, t]))
    y = torch.stack(outputs)[None]
    y = y / (y.square().mean(-1, keepdim=True) + 1e-6).sqrt() * layer.norm.weight
    y = y.flatten(-2)
    if gate is not None:
        y = y * gate(x @ layer.gate_proj.weight.T)
    return y @ layer.out_proj.weight.T


def unit(x):
    return x / x.norm(dim=-1, keepdim=True)


def outer(a, b):
    return torch.einsum("hs,hd->hsd", a, b)


def gates(layer, x):
    alpha = layer.decay(x)[0].exp()[0, ..., None, None]
    return alpha, layer.beta_proj(x).sigmoid()[0, ..., None]


def test_gated_deltanet():
    layer, x, streams = setting(GatedDeltaNet(**SIZES))
    k, v, q = unit(streams["k"])[0], streams["v"][0], unit(streams["q"]) / 6**0.5
    alpha, beta = gates(layer, x)

    def step(E, t):
        E = alpha[t] * E
        return E + outer(k[t], beta[t] * (v[t] - torch.einsum("hsd,hs->hd", E, k[t])))

    torch.testing.assert_close(layer(x)[0], read(layer, x, step, q))


def test_deltanet():
    sizes = {name: value for name, value in SIZES.items() if name != "decay_init"}
    layer, x, streams = setting(DeltaNet(**sizes))
    k, v, q = unit(streams["k"])[0], streams["v"][0], unit(streams["q"]) / 6**0.5
    beta = layer.beta_proj(x).sigmoid()[0, ..., None]

    def step(E, t):
        return E + outer(k[t], beta[t] * (v[t] - torch.einsum("hsd,hs->hd", E, k[t])))

    assert layer.gate_proj is None
    torch.testing.assert_close(layer(x)[0], read(layer, x, step, q, gate=None))


def test_linear_attention():
    layer, x, streams = setting(LinearAttention(**SIZES))
    k, v = streams["k"][0], streams["v"][0]
    log_alpha, delta = layer.decay(x)
    torch.testing.assert_close(log_alpha, -layer.decay.A_log.exp() * delta)

    def step(E, t):
        return log_alpha[0, t, :, None, None].exp() * E + outer(k[t], delta[0, t, :, None] * v[t])

    torch.testing.assert_close(layer(x)[0], read(layer, x, step, streams["q"]))


def test_comba():
    layer, x, streams = setting(Comba(**SIZES, correction=0.3))
    k, v = unit(streams["k"])[0], streams["v"][0]
    q = (unit(streams["q"]) - 0.3 * unit(streams["k"])) / 6**0.5
    alpha, beta = gates(layer, x)
    feedback = layer.feedback.sigmoid()[:, None]

    def step(E, t):
        predicted = torch.einsum("hsd,hs->hd", E, feedback * k[t])
        return alpha[t] * E + outer(k[t], beta[t] * (v[t] - predicted))

    torch.testing.assert_close(layer(x)[0], read(layer, x, step, q, gate=SIGMOID))


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
    layer, x, streams = setting(layer)
    c = layer.coordinates(x, streams)
    expected = unit(streams["q"]) if unit_query else streams["q"]
    torch.testing.assert_close(c["q"], expected)


def test_atpm():
    layer = ATPM(**SIZES, key_dim=3, transport_rank=4)
    with torch.no_grad():
        layer.controller.weight.normal_()
        layer.c.normal_()
    layer, x, streams = setting(layer)
    k, v, s = streams["k"][0], streams["v"][0], unit(streams["s"])[0]
    e = torch.cat([k, v], -1)
    alpha = layer.decay(x)[0].exp()[0, ..., None, None]
    beta_k, beta_v = torch.sigmoid(x @ layer.beta_proj.weight.T)[0, ..., None].split(2, 1)
    omega = torch.cat([beta_k.expand(-1, -1, 3), beta_v.expand(-1, -1, 5)], -1)
    rho, lam = torch.sigmoid(x @ layer.controller.weight.T)[0, ..., None].split(2, 1)

    def rms(view):
        return view / (view.square().mean(-1, keepdim=True) + 1e-6).sqrt()

    z_k = torch.einsum("thi,hri->thr", rms(k), layer.a_k)
    z_v = torch.einsum("thi,hri->thr", rms(v), layer.a_v)
    c = torch.einsum("thr,hsr->ths", z_k * z_v, layer.c) / 2
    b = c / (1 + c.square().sum(-1, keepdim=True)).sqrt()
    d = s + rho * (b - s * (s * b).sum(-1, keepdim=True))
    a = unit(d)
    q = streams["q"][0]
    q = q + lam * (1 - (q * a).sum(-1, keepdim=True)) * a

    def step(E, t):
        E = alpha[t] * E
        return E + outer(d[t], omega[t] * (e[t] - torch.einsum("hsd,hs->hd", E, s[t])))

    torch.testing.assert_close(layer(x)[0], read(layer, x, step, q[None], D=8))


@pytest.mark.parametrize("window", (None, 4))
@pytest.mark.parametrize("groups", (4, 2))
def test_attention(window, groups):
    layer = Attention(
        hidden_size=16, num_heads=4, num_kv_heads=groups, head_dim=6, sliding_window=window
    ).double()
    x = torch.randn(1, 12, 16, dtype=torch.float64)

    def heads(projection, count):
        return (x[0] @ projection.weight.T).unflatten(-1, (count, 6))

    def rotate(vector, position):
        """Turn each pair (i, i + 3) by position · 10000^(−i/3)."""
        turned = vector.clone()
        for i in range(3):
            angle = torch.tensor(position * 10_000 ** (-i / 3), dtype=torch.float64)
            first, second = vector[i], vector[i + 3]
            turned[i] = first * angle.cos() - second * angle.sin()
            turned[i + 3] = second * angle.cos() + first * angle.sin()
        return turned

    q, k, v = heads(layer.q_proj, 4), heads(layer.k_proj, groups), heads(layer.v_proj, groups)
    y = torch.zeros(12, 4, 6, dtype=torch.float64)
    for t in range(12):
        for head in range(4):
            group = head * groups // 4
            seen = range(0 if window is None else max(0, t + 1 - window), t + 1)
            scores = torch.stack(
                [rotate(q[t, head], t) @ rotate(k[i, group], i) / 6**0.5 for i in seen]
            )
            y[t, head] = scores.softmax(0) @ v[list(seen), group]
    torch.testing.assert_close(layer(x)[0][0], y.flatten(1) @ layer.out_proj.weight.T)


def test_lstm():
    layer = LSTM(hidden_size=4).double()
    x = torch.randn(1, 9, 4, dtype=torch.float64)
    cell = layer.cell
    hidden, memory = torch.zeros(4).double(), torch.zeros(4).double()
    for t in range(9):
        gates = cell.weight_ih_l0 @ x[0, t] + cell.bias_ih_l0
        gates = gates + cell.weight_hh_l0 @ hidden + cell.bias_hh_l0
        write, keep, new, show = gates.unflatten(0, (4, 4))
        memory = keep.sigmoid() * memory + write.sigmoid() * new.tanh()
        hidden = show.sigmoid() * memory.tanh()
        torch.testing.assert_close(layer(x)[0][0, t], hidden)


def test_gradients_of_packed_lstm_sequences_are_those_of_each_alone():
    layer = LSTM(hidden_size=4).double()
    lengths = [3, 0, 8, 1, 8, 2, 5]
    x = torch.randn(1, sum(lengths), 4, dtype=torch.float64, requires_grad=True)
    leaves = [x, *layer.parameters()]

    def gradients(read):
        made = [part for y, state in read for part in (y, state.hidden, state.cell)]
        return torch.autograd.grad(sum(part.sin().sum() for part in made), leaves)

    offsets = torch.tensor([0, *lengths]).cumsum(0)
    packed = gradients([layer(x, cu_seqlens=offsets)])
    alone = gradients([layer(part) for part in x.split(lengths, 1)])
    torch.testing.assert_close(packed, alone, rtol=0, atol=1e-12)

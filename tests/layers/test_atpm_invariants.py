"""The eight invariants of seed 000, appendix B, on the coordinates that the layer makes."""

from __future__ import annotations

import pytest
import torch
from inputs import atpm_inputs

from fourfold.layers import ATPM
from fourfold.ops import atpm, recall, transport, transport_proposal


@pytest.fixture
def coordinates():
    layer = ATPM(hidden_size=24, num_heads=3, head_dim=8, key_dim=4, value_dim=12).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(torch.randn_like(parameter))
    x = torch.randn(2, 50, 24, dtype=torch.float64)
    streams, _ = layer.project(x, None, None)
    return layer.coordinates(x, streams)


def destination(c):
    return transport(s=c["s"], b=c["b"], rho=c["rho"])


def test_1_source_is_of_unit_norm(coordinates):
    norms = coordinates["s"].norm(dim=-1)
    torch.testing.assert_close(norms, torch.ones_like(norms), rtol=0, atol=1e-12)


def test_2_tangent_is_orthogonal_to_source(coordinates):
    s = coordinates["s"]
    tau = transport(s=s, b=coordinates["b"], rho=torch.ones_like(coordinates["rho"])) - s
    assert tau.norm(dim=-1).max() > 0.1
    assert (s * tau).sum(-1).abs().max() < 1e-12


def test_3_source_and_destination_have_product_one(coordinates):
    d = destination(coordinates)
    assert (d - coordinates["s"]).norm(dim=-1).max() > 0.1
    assert ((coordinates["s"] * d).sum(-1) - 1).abs().max() < 1e-12


def test_4_proposal_is_shorter_than_one(coordinates):
    assert coordinates["b"].norm(dim=-1).max() < 1
    k, v = coordinates["k"], coordinates["v"]
    a = torch.randn(3, 5, 4).double(), torch.randn(3, 5, 12).double()
    b = transport_proposal(k=k, v=v, a_k=a[0], a_v=a[1], c=100 * torch.randn(3, 8, 5).double())
    assert 0.99 < b.norm(dim=-1).max() < 1


def test_5_rho_and_lambda_lie_between_zero_and_one(coordinates):
    for name in ("rho", "lam"):
        assert coordinates[name].min() > 0
        assert coordinates[name].max() < 1


def test_6_recall_residual_shrinks_by_one_minus_lambda(coordinates):
    d = destination(coordinates)
    a = d / d.norm(dim=-1, keepdim=True)
    free, lam = coordinates["q"], coordinates["lam"]
    q = recall(q=free, d=d, lam=lam)
    expected = (1 - lam) * (1 - (free * a).sum(-1))
    torch.testing.assert_close(1 - (q * a).sum(-1), expected, rtol=0, atol=1e-12)


def test_7_chunked_path_equals_sequential_reference(coordinates):
    y, state = atpm(**coordinates, form="sequential")
    chunked, chunked_state = atpm(**coordinates, form="chunked", chunk_size=16)
    torch.testing.assert_close(chunked, y, rtol=0, atol=1e-10)
    torch.testing.assert_close(chunked_state, state, rtol=0, atol=1e-10)


def test_8_controllers_begin_at_exactly_one_half():
    layer = ATPM(hidden_size=24, num_heads=3, head_dim=8, key_dim=4, value_dim=12)
    x = torch.randn(2, 10, 24)
    c = layer.coordinates(x, layer.project(x, None, None)[0])
    for name in ("rho", "lam"):
        assert torch.equal(c[name], torch.full_like(c[name], 0.5))


def test_the_six_steps_written_out_for_one_token():
    # The equations of seed 000, section 9, once more and by hand, for a token on a warm state.
    x = {name: value.detach()[0, 0, 0] for name, value in atpm_inputs(B=1, T=1, H=1).items()}
    before = torch.randn(5, 7, dtype=torch.float64)
    decayed = x["log_alpha"].exp() * before
    e = torch.cat([x["k"], x["v"]])
    r = e - decayed.T @ x["s"]
    omega = torch.cat([x["beta_k"].expand(3), x["beta_v"].expand(4)])
    tau = (torch.eye(5).double() - torch.outer(x["s"], x["s"])) @ x["b"]
    d = x["s"] + x["rho"] * tau
    after = decayed + torch.outer(d, omega * r)
    a = d / d.norm()
    q = x["q"] + x["lam"] * (1 - x["q"] @ a) * a
    y, state = atpm(**atpm_inputs(B=1, T=1, H=1), initial_state=before[None, None])
    torch.testing.assert_close(state[0, 0], after, rtol=0, atol=1e-14)
    torch.testing.assert_close(y[0, 0, 0], after.T @ q, rtol=0, atol=1e-14)

"""The geometry of ATPM, value by value."""

from __future__ import annotations

import torch

from fourfold.ops import recall, transport, transport_proposal

B, T, H, S, DK, DV, R = 2, 3, 2, 5, 3, 4, 6


def normal(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def test_the_proposal_is_the_bilinear_form_of_the_normalised_views_on_the_soft_sphere():
    k, v = normal(B, T, H, DK), 7 * normal(B, T, H, DV)
    a_k, a_v, c = normal(H, R, DK), normal(H, R, DV), normal(H, S, R)
    b = transport_proposal(k=k, v=v, a_k=a_k, a_v=a_v, c=c, eps=0.0)
    for row in range(B):
        for t in range(T):
            for head in range(H):
                key, value = k[row, t, head], v[row, t, head]
                key = key / (key @ key / DK).sqrt()
                value = value / (value @ value / DV).sqrt()
                z = (a_k[head] @ key) * (a_v[head] @ value)
                proposal = c[head] @ z / R**0.5
                expected = proposal / (1 + proposal @ proposal).sqrt()
                torch.testing.assert_close(b[row, t, head], expected, rtol=0, atol=1e-12)


def test_views_of_zeros_propose_nothing_and_keep_gradients_finite():
    k, v = torch.zeros(1, 1, 1, DK, requires_grad=True), torch.zeros(1, 1, 1, DV)
    b = transport_proposal(
        k=k, v=v, a_k=torch.ones(1, R, DK), a_v=torch.ones(1, R, DV), c=torch.ones(1, S, R)
    )
    b.sum().backward()
    assert torch.equal(b, torch.zeros(1, 1, 1, S))
    assert torch.isfinite(k.grad).all()


def test_transport_moves_by_rho_along_the_part_of_b_that_is_orthogonal_to_s():
    s = torch.tensor([[[[0.6, 0.8, 0.0]]]], dtype=torch.float64)
    b = torch.tensor([[[[0.5, 0.0, 0.2]]]], dtype=torch.float64)
    d = transport(s=s, b=b, rho=torch.tensor([[[0.25]]], dtype=torch.float64))
    tangent = torch.tensor([0.5 - 0.6 * 0.3, -0.8 * 0.3, 0.2], dtype=torch.float64)
    torch.testing.assert_close(d[0, 0, 0], s[0, 0, 0] + 0.25 * tangent)


def test_recall_of_a_zero_destination_corrects_nothing_and_has_gradients():
    q = normal(1, 1, 1, S).requires_grad_()
    d = torch.zeros(1, 1, 1, S, dtype=torch.float64, requires_grad=True)
    result = recall(q=q, d=d, lam=torch.ones(1, 1, 1, dtype=torch.float64))
    result.sum().backward()
    assert torch.equal(result, q)
    assert torch.isfinite(d.grad).all()


def test_full_recall_reads_the_anchor_with_weight_one():
    q, d = normal(B, T, H, S), normal(B, T, H, S)
    corrected = recall(q=q, d=d, lam=torch.ones(B, T, H, dtype=torch.float64))
    anchored = (corrected * d).sum(-1) / d.norm(dim=-1)
    torch.testing.assert_close(anchored, torch.ones_like(anchored))

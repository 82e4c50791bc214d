"""Long streams, violent decays, and the growth that the operator must not hide."""

from __future__ import annotations

import pytest
import torch
from inputs import assert_close, atpm_inputs, doubling_stream, leaves, random_state, run

from fourfold.ops import atpm, delta_rule

FORMS = ("sequential", "chunked", "fused")


def test_100_000_tokens_without_decay_stay_finite(record_property):
    state, largest = None, 0.0
    for seed in range(25):
        inputs = atpm_inputs(B=1, T=4000, H=1, S=8, Dk=4, Dv=8, dtype=torch.float32, seed=seed)
        inputs = {name: x.detach() for name, x in inputs.items()}
        inputs["log_alpha"] = torch.zeros_like(inputs["log_alpha"])
        y, state = atpm(**inputs, initial_state=state)
        assert torch.isfinite(y).all()
        largest = max(largest, float(state.norm()))
    record_property("largest state norm in 100,000 random tokens, log_alpha = 0", f"{largest:.1f}")
    assert largest < 1e3


def test_a_decay_of_e_to_the_minus_30_makes_no_infinite_gradient():
    for form in FORMS:
        for dtype, tolerance in ((torch.float32, 1e-4), (torch.float64, 1e-9)):
            inputs = {name: x.detach() for name, x in atpm_inputs(T=130).items()}
            inputs["log_alpha"][:, ::3] = -30.0
            reference = run(atpm, leaves(inputs, torch.float64), random_state(), form="sequential")
            state = leaves({"E": random_state()}, dtype)["E"]
            results = run(atpm, leaves(inputs, dtype), state, form=form)
            assert all(torch.isfinite(x).all() for x in results.values())
            assert_close(results, reference, tolerance)


@pytest.mark.parametrize("form", ("chunked", "fused"))
def test_small_decays_after_a_violent_one_keep_their_precision(form):
    inputs = {name: x.detach() for name, x in atpm_inputs(T=64).items()}
    inputs["log_alpha"][:] = -1e-3
    inputs["log_alpha"][:, 5:10] = -2000.0
    reference = run(atpm, leaves(inputs, torch.float64), form="sequential")
    results = run(atpm, leaves(inputs, torch.float32), form=form)
    assert_close(results, reference, 1e-5)


def test_opposite_proposals_at_44_degrees_double_the_state_every_two_tokens(record_property):
    norms = []
    state = None
    for _ in range(20):
        _, state = atpm(**doubling_stream(2, dtype=torch.float64), initial_state=state)
        norms.append(float(state.norm()))
    growth = norms[-1] / norms[-2]
    record_property("growth of the state in two tokens of the doubling stream", f"{growth:.4f}")
    assert 1.98 < growth < 2.0


def test_the_doubling_stream_overflows_float32_in_about_256_tokens():
    # The operator is exact and does not hide this; sessions guard against it.
    for form in FORMS:
        _, early = atpm(**doubling_stream(200), form=form)
        assert torch.isfinite(early).all()
        assert early.norm() > 1e25
        _, late = atpm(**doubling_stream(300), form=form)
        assert not torch.isfinite(late).all()


@pytest.mark.parametrize("form", FORMS)
def test_autocast_does_not_reach_into_the_state(form):
    # Adding ones: in bfloat16 the sum would stop growing at 256 additions of one.
    ones = torch.ones(1, 3000, 1, 1)
    gate = torch.ones(1, 3000, 1)
    rule = dict(q=ones, s=ones, d=ones, e=ones, log_alpha=0 * gate, erase=0 * gate, write=gate)
    with torch.autocast("cpu", torch.bfloat16):
        _, state = delta_rule(**rule, form=form)
    assert state.dtype == torch.float32
    assert float(state) == 3000
    inputs = atpm_inputs(T=200, dtype=torch.float32)
    y, _ = atpm(**inputs, form=form)
    with torch.autocast("cpu", torch.bfloat16):
        mixed, _ = atpm(**inputs, form=form)
    assert torch.equal(mixed, y)

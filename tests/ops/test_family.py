"""The relatives as parameterisations of one rule, each against a loop of its own or a witness."""

from __future__ import annotations

import pytest
import torch
from inputs import assert_close, atpm_inputs, delta_inputs, run
from transformers.models.qwen3_next.modeling_qwen3_next import (
    torch_chunk_gated_delta_rule,
    torch_recurrent_gated_delta_rule,
)

from fourfold.ops import atpm, delta_rule, recall, transport

FORMS = ("sequential", "chunked", "fused")


def zeros_like_gate(inputs):
    return torch.zeros_like(inputs["rho"])


@pytest.mark.parametrize("form", FORMS)
def test_rho_zero_writes_where_it_read(form):
    inputs = atpm_inputs(T=70)
    inputs["rho"] = zeros_like_gate(inputs)
    y, state = atpm(**inputs, form=form)
    strengths = torch.stack([inputs["beta_k"], inputs["beta_v"]], -1)
    expected, expected_state = delta_rule(
        q=recall(q=inputs["q"], d=inputs["s"], lam=inputs["lam"]),
        s=inputs["s"],
        d=inputs["s"],
        e=torch.cat([inputs["k"], inputs["v"]], -1),
        log_alpha=inputs["log_alpha"],
        erase=strengths,
        write=strengths,
        column_blocks=(3, 4),
        form="sequential",
    )
    torch.testing.assert_close(y, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(state, expected_state, rtol=0, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_lambda_zero_leaves_the_query_free(form):
    inputs = atpm_inputs(T=70)
    inputs["lam"] = zeros_like_gate(inputs)
    y, _ = atpm(**inputs, form=form)
    strengths = torch.stack([inputs["beta_k"], inputs["beta_v"]], -1)
    expected, _ = delta_rule(
        q=inputs["q"],
        s=inputs["s"],
        d=transport(s=inputs["s"], b=inputs["b"], rho=inputs["rho"]),
        e=torch.cat([inputs["k"], inputs["v"]], -1),
        log_alpha=inputs["log_alpha"],
        erase=strengths,
        write=strengths,
        column_blocks=(3, 4),
        form="sequential",
    )
    torch.testing.assert_close(y, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_equal_betas_revise_the_entity_as_one(form):
    inputs = atpm_inputs(T=70)
    inputs["beta_k"] = inputs["beta_v"]
    y, _ = atpm(**inputs, form=form)
    d = transport(s=inputs["s"], b=inputs["b"], rho=inputs["rho"])
    expected, _ = delta_rule(
        q=recall(q=inputs["q"], d=d, lam=inputs["lam"]),
        s=inputs["s"],
        d=d,
        e=torch.cat([inputs["k"], inputs["v"]], -1),
        log_alpha=inputs["log_alpha"],
        erase=inputs["beta_v"],
        write=inputs["beta_v"],
        form="sequential",
    )
    torch.testing.assert_close(y, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "witness", (torch_chunk_gated_delta_rule, torch_recurrent_gated_delta_rule)
)
def test_all_endpoints_together_are_the_gated_delta_rule_of_transformers(form, witness):
    # The decorated functions dispatch to another library where it is installed.
    witness = witness.__wrapped__
    inputs = atpm_inputs(T=130, S=8, Dk=4, Dv=6, dtype=torch.float32)
    inputs |= dict(
        rho=zeros_like_gate(inputs), lam=zeros_like_gate(inputs), beta_k=inputs["beta_v"]
    )
    y, state = atpm(**inputs, form=form)
    expected, expected_state = witness(
        query=inputs["q"] * 8**0.5,  # it divides the query by the root of its size
        key=inputs["s"],
        value=torch.cat([inputs["k"], inputs["v"]], -1),
        g=inputs["log_alpha"],
        beta=inputs["beta_v"],
        output_final_state=True,
    )
    torch.testing.assert_close(y, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(state, expected_state, rtol=1e-4, atol=1e-5)


def loop(step, inputs, D):
    """Run a one-token update over time; rows and heads are looped, so a step is plain algebra."""
    B, T, H, S = inputs["q"].shape
    y = torch.zeros(B, T, H, D, dtype=torch.float64)
    for row in range(B):
        for head in range(H):
            E = torch.zeros(S, D, dtype=torch.float64)
            for t in range(T):
                E = step(E, {name: x[row, t, head] for name, x in inputs.items()})
                y[row, t, head] = E.T @ inputs["q"][row, t, head]
    return y


@pytest.mark.parametrize("form", FORMS)
def test_deltanet_is_the_rule_without_decay(form):
    x = {name: value.detach() for name, value in delta_inputs(T=40).items()}
    rule = x | dict(d=x["s"], log_alpha=torch.zeros_like(x["log_alpha"]), write=x["erase"])
    y, _ = delta_rule(**rule, form=form)

    def step(E, t):
        k, v, beta = t["s"], t["e"], t["erase"]
        return E - beta * torch.outer(k, k) @ E + beta * torch.outer(k, v)

    torch.testing.assert_close(y, loop(step, x, 6), rtol=0, atol=1e-10)


@pytest.mark.parametrize("form", FORMS)
def test_linear_attention_is_the_rule_that_erases_nothing(form):
    x = {name: value.detach() for name, value in delta_inputs(T=40).items()}
    rule = x | dict(erase=torch.zeros_like(x["erase"]))
    y, _ = delta_rule(**rule, form=form)

    def step(E, t):
        return t["log_alpha"].exp() * E + t["write"] * torch.outer(t["d"], t["e"])

    torch.testing.assert_close(y, loop(step, x, 6), rtol=0, atol=1e-10)


@pytest.mark.parametrize("form", FORMS)
def test_comba_is_the_rule_whose_erase_reads_the_undecayed_state(form):
    x = {name: value.detach() for name, value in delta_inputs(T=40).items()}
    beta, feedback = x["write"], 0.7
    k = x["s"]
    rule = x | dict(d=k, s=feedback * k, erase=beta * torch.exp(-x["log_alpha"]))
    y, _ = delta_rule(**rule, form=form)

    def step(E, t):
        alpha, beta, k = t["log_alpha"].exp(), t["write"], t["s"]
        return alpha * E - feedback * beta * torch.outer(k, k) @ E + beta * torch.outer(k, t["e"])

    torch.testing.assert_close(y, loop(step, x, 6), rtol=0, atol=1e-10)


@pytest.mark.parametrize("form", ("chunked", "fused"))
def test_gated_deltanet_gradients_agree_with_transformers(form):
    inputs = delta_inputs(T=70, dtype=torch.float32)
    shared = {name: inputs[name] for name in ("q", "s", "e", "log_alpha", "write")}

    def ours(q, s, e, log_alpha, write, **options):
        return delta_rule(
            q=q, s=s, d=s, e=e, log_alpha=log_alpha, erase=write, write=write, **options
        )

    def theirs(q, s, e, log_alpha, write, initial_state):
        return torch_chunk_gated_delta_rule.__wrapped__(
            query=q * q.shape[-1] ** 0.5,
            key=s,
            value=e,
            g=log_alpha,
            beta=write,
            initial_state=initial_state,
            output_final_state=True,
        )

    assert_close(run(ours, shared, form=form), run(theirs, shared), 1e-4)


def test_unit_sources_keep_a_revision_a_contraction():
    # d = s and β in (0, 1): I − β s sᵀ never lengthens a state, with nothing to help by decaying.
    inputs = {name: x.detach() for name, x in delta_inputs(T=200).items()}
    inputs |= dict(
        d=inputs["s"],
        log_alpha=torch.zeros_like(inputs["log_alpha"]),
        write=torch.zeros_like(inputs["write"]),
    )
    state = torch.ones(2, 2, 5, 6, dtype=torch.float64)
    for t in range(200):
        step = {name: x[:, t : t + 1] for name, x in inputs.items()}
        _, after = delta_rule(**step, initial_state=state)
        shorter = after.norm(dim=(-2, -1)) <= state.norm(dim=(-2, -1)) * (1 + 1e-12)
        assert shorter.all()
        state = after

"""What a user gets wrong is answered with a sentence that names it."""

from __future__ import annotations

import pytest
import torch
from inputs import atpm_inputs, delta_inputs, random_state

from fourfold.ops import atpm, delta_rule, recall, transport, transport_proposal


def refuse(error, *words, op=atpm, inputs=None, **changes):
    inputs = dict(atpm_inputs() if inputs is None else inputs) | changes
    with pytest.raises(error) as caught:
        op(**inputs)
    for word in words:
        assert word in str(caught.value), str(caught.value)


def test_wrong_shapes_name_the_argument_what_came_and_what_is_accepted():
    refuse(ValueError, "rho must have shape", "(2, 20, 2)", "(2, 20, 3)", rho=torch.rand(2, 20, 3))
    refuse(ValueError, "s must have shape", "(2, 20, 2, 4)", s=torch.rand(2, 20, 2, 4))
    refuse(ValueError, "v must have shape", "(2, 19, 2, 4)", v=torch.rand(2, 19, 2, 4))
    refuse(ValueError, "q must have shape", "(5,)", q=torch.rand(5))
    refuse(
        ValueError,
        "erase must have shape",
        "(2, 20, 2, 6)",
        op=delta_rule,
        inputs=delta_inputs(),
        erase=torch.rand(2, 20, 2, 5),
    )


def test_the_argument_that_set_a_size_is_named_too():
    inputs = atpm_inputs()
    refuse(
        ValueError,
        "s must have shape (B, T, H, S) = (2, 20, 2, 4); got (2, 20, 2, 5). S = 4 is that of q.",
        q=inputs["q"][..., :4],
    )


def test_wrong_types_name_the_argument():
    refuse(TypeError, "q must be a torch.Tensor", "list", q=[1.0])
    refuse(
        TypeError, "beta_k must be a floating tensor", "int64", beta_k=torch.ones(2, 20, 2).long()
    )
    refuse(
        TypeError, "e must be a torch.Tensor", "None", op=delta_rule, inputs=delta_inputs(), e=None
    )


def test_wrong_devices_name_both():
    refuse(
        ValueError,
        "k must be on the device of q, cpu",
        "meta",
        k=torch.empty(2, 20, 2, 3, device="meta"),
    )


def test_a_state_of_the_wrong_shape_is_refused():
    refuse(
        ValueError, "initial_state must have shape", "(3, 2, 5, 7)", initial_state=random_state(N=3)
    )
    refuse(
        ValueError,
        "initial_state must have shape (N, H, S, D) = (1, 2, 5, 7)",
        inputs=atpm_inputs(B=1),
        initial_state=random_state(N=2),
        cu_seqlens=torch.tensor([0, 20]),
    )


@pytest.mark.parametrize("offsets", ([0, 12, 8, 20], [1, 20], [0, 19], [0, 21]))
def test_offsets_that_do_not_cover_the_tokens_in_order_are_refused(offsets):
    refuse(
        ValueError,
        "cu_seqlens must start at 0, never decrease and end at T = 20",
        str(offsets),
        inputs=atpm_inputs(B=1),
        cu_seqlens=torch.tensor(offsets),
    )


def test_other_faults_of_cu_seqlens():
    packed = atpm_inputs(B=1)
    refuse(TypeError, "cu_seqlens", "list", inputs=packed, cu_seqlens=[0, 20])
    refuse(TypeError, "cu_seqlens", "float32", inputs=packed, cu_seqlens=torch.tensor([0.0, 20.0]))
    refuse(
        ValueError, "cu_seqlens must have shape", inputs=packed, cu_seqlens=torch.tensor([[0, 20]])
    )
    refuse(ValueError, "B must be 1", "B = 2", cu_seqlens=torch.tensor([0, 20]))


def test_options_outside_the_accepted_are_refused():
    refuse(ValueError, "form must be one of 'auto', 'sequential', 'chunked'", "'fast'", form="fast")
    refuse(ValueError, "chunk_size must be a positive integer", "0", chunk_size=0)
    refuse(
        ValueError,
        "column_blocks must be non-negative widths that sum to D = 6",
        "[2, 5]",
        op=delta_rule,
        inputs=delta_inputs(),
        column_blocks=(2, 5),
    )


def test_check_refuses_values():
    inputs = {name: x.detach() for name, x in atpm_inputs().items()}

    def spoiled(name, value):
        x = inputs[name].clone()
        x.view(-1)[3] = value
        return {name: x, "check": True}

    atpm(**inputs, check=True)
    refuse(ValueError, "v must be finite", "1 NaN", inputs=inputs, **spoiled("v", float("nan")))
    refuse(ValueError, "log_alpha must be at most 0", inputs=inputs, **spoiled("log_alpha", 0.5))
    refuse(ValueError, "rho must lie in [0, 1]", inputs=inputs, **spoiled("rho", 1.5))
    refuse(ValueError, "lam must lie in [0, 1]", inputs=inputs, **spoiled("lam", -0.5))
    refuse(ValueError, "s must hold unit vectors", inputs=inputs, s=2 * inputs["s"], check=True)
    bad_state = random_state().detach()
    bad_state[0, 0, 0, 0] = float("inf")
    refuse(
        ValueError,
        "initial_state must be finite",
        inputs=inputs,
        initial_state=bad_state,
        check=True,
    )


def test_the_geometry_refuses_too():
    x = atpm_inputs()
    with pytest.raises(ValueError, match="b must have shape"):
        transport(s=x["s"], b=x["b"][..., :2], rho=x["rho"])
    with pytest.raises(ValueError, match="lam must have shape"):
        recall(q=x["q"], d=x["s"], lam=x["lam"][..., None])
    with pytest.raises(ValueError, match="a_v must have shape"):
        transport_proposal(
            k=x["k"],
            v=x["v"],
            a_k=torch.rand(2, 6, 3).double(),
            a_v=torch.rand(2, 5, 4).double(),
            c=torch.rand(2, 5, 6).double(),
        )

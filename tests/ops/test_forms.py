"""The parallel forms against the token loop: output, final state and every gradient."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from inputs import (
    assert_close,
    atpm_inputs,
    delta_inputs,
    leaves,
    random_state,
    relative_error,
    run,
)

from fourfold.ops import atpm, delta_rule

SHAPES = {
    "views of unequal width": dict(S=5, Dk=3, Dv=4),
    "no key view": dict(S=5, Dk=0, Dv=4),
    "one address": dict(S=1, Dk=2, Dv=3),
}
LENGTHS = (1, 2, 63, 64, 65, 200, 1000)
FORMS = ("sequential", "chunked", "fused")
PARALLEL = ("chunked", "fused")
ways = pytest.mark.parametrize(
    "way",
    [dict(form="chunked", chunk_size=size) for size in (16, 32, 64)] + [dict(form="fused")],
    ids=lambda way: "-".join(map(str, way.values())),
)


@cache
def oracle(shape: str, T: int) -> tuple[dict, torch.Tensor, dict]:
    sizes = SHAPES[shape]
    inputs = atpm_inputs(T=T, **sizes)
    state = random_state(S=sizes["S"], D=sizes["Dk"] + sizes["Dv"])
    return inputs, state, run(atpm, inputs, state, form="sequential")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("T", LENGTHS)
@ways
def test_parallel_forms_equal_the_token_loop(shape, T, way):
    inputs, state, reference = oracle(shape, T)
    results = run(atpm, inputs, state, **way)
    assert_close(results, reference, 1e-9)
    assert (results["y"] - reference["y"]).abs().max() < 1e-9
    assert (results["state"] - reference["state"]).abs().max() < 1e-9


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("T", LENGTHS)
@ways
def test_parallel_forms_in_float32_are_within_1e_4_of_the_float64_loop(shape, T, way):
    inputs, state, reference = oracle(shape, T)
    inputs, state = leaves(inputs, torch.float32), leaves({"E": state}, torch.float32)["E"]
    results = run(atpm, inputs, state, **way)
    assert_close(results, reference, 1e-4)


@pytest.mark.parametrize("per_column", (False, True))
@pytest.mark.parametrize("form", PARALLEL)
def test_delta_rule_with_one_strength_for_all_or_for_each_column(form, per_column):
    inputs = delta_inputs(T=70, per_column=per_column)
    state = random_state(D=6)
    reference = run(delta_rule, inputs, state, form="sequential")
    assert_close(run(delta_rule, inputs, state, form=form, chunk_size=16), reference, 1e-9)


def test_column_blocks_equal_strengths_written_out_per_column():
    inputs = delta_inputs(T=40, D=6)
    blocks = torch.rand(2, 40, 2, 3, dtype=torch.float64)
    spelled_out = blocks.repeat_interleave(torch.tensor([1, 3, 2]), -1)
    for form in FORMS:
        by_block, _ = delta_rule(
            **inputs | dict(erase=blocks, write=blocks), column_blocks=(1, 3, 2), form=form
        )
        by_column, _ = delta_rule(**inputs | dict(erase=spelled_out, write=spelled_out), form=form)
        torch.testing.assert_close(by_block, by_column, rtol=0, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_gradcheck(form):
    inputs = atpm_inputs(B=1, T=5, H=1, S=3, Dk=1, Dv=2)
    state = random_state(N=1, H=1, S=3, D=3)

    def function(state, *values):
        return atpm(
            **dict(zip(inputs, values, strict=True)), initial_state=state, form=form, chunk_size=2
        )

    assert torch.autograd.gradcheck(function, (state, *inputs.values()))


@pytest.mark.parametrize("form", PARALLEL)
def test_second_derivatives(form):
    inputs = atpm_inputs(B=1, T=4, H=1, S=3, Dk=1, Dv=2)
    state = random_state(N=1, H=1, S=3, D=3)

    def function(state, *values):
        y, final = atpm(**dict(zip(inputs, values, strict=True)), initial_state=state, form=form)
        return y.square(), final

    assert torch.autograd.gradgradcheck(function, (state, *inputs.values()))


@settings(max_examples=25, deadline=None)
@given(
    cuts=st.lists(st.integers(0, 90), max_size=4).map(sorted),
    chunk_size=st.sampled_from((1, 7, 16, 64)),
    form=st.sampled_from((*FORMS, "auto")),
)
def test_splitting_anywhere_and_carrying_the_state_changes_nothing(cuts, chunk_size, form):
    inputs = atpm_inputs(T=90)
    whole, final = atpm(**inputs, form="sequential")
    pieces, state = [], None
    for start, end in zip([0, *cuts], [*cuts, 90], strict=True):
        piece = {name: x[:, start:end] for name, x in inputs.items()}
        y, state = atpm(**piece, initial_state=state, form=form, chunk_size=chunk_size)
        pieces.append(y)
    torch.testing.assert_close(torch.cat(pieces, 1), whole, rtol=0, atol=1e-9)
    torch.testing.assert_close(state, final, rtol=0, atol=1e-9)


@settings(max_examples=25, deadline=None)
@given(
    lengths=st.lists(st.sampled_from((0, 1, 2, 15, 16, 17, 40)), max_size=6),
    chunk_size=st.sampled_from((1, 16, 64)),
    form=st.sampled_from((*FORMS, "auto")),
)
def test_packed_sequences_equal_the_same_one_by_one(lengths, chunk_size, form):
    total = sum(lengths)
    inputs = atpm_inputs(B=1, T=total)
    state = random_state(N=len(lengths))
    cu_seqlens = torch.tensor([0, *lengths]).cumsum(0)
    y, final = atpm(
        **inputs, initial_state=state, cu_seqlens=cu_seqlens, form=form, chunk_size=chunk_size
    )
    assert final.shape == state.shape
    for n in range(len(lengths)):
        own = slice(int(cu_seqlens[n]), int(cu_seqlens[n + 1]))
        alone, alone_final = atpm(
            **{name: x[:, own] for name, x in inputs.items()},
            initial_state=state[n : n + 1],
            form="sequential",
        )
        torch.testing.assert_close(y[:, own], alone, rtol=0, atol=1e-9)
        torch.testing.assert_close(final[n : n + 1], alone_final, rtol=0, atol=1e-9)


@pytest.mark.parametrize("form", PARALLEL)
def test_packed_gradients_equal_the_token_loop(form):
    inputs = atpm_inputs(B=1, T=100)
    state = random_state(N=4)
    options = dict(cu_seqlens=torch.tensor([0, 0, 1, 67, 100], dtype=torch.int32))
    reference = run(atpm, inputs, state, form="sequential", **options)
    assert_close(run(atpm, inputs, state, form=form, **options), reference, 1e-9)


@pytest.mark.parametrize("form", FORMS)
def test_results_do_not_depend_on_batch_neighbours(form):
    inputs = atpm_inputs(B=3, T=70)
    state = random_state(N=3)
    together, final = atpm(**inputs, initial_state=state, form=form)
    for row in range(3):
        own = slice(row, row + 1)
        alone, alone_final = atpm(
            **{name: x[own] for name, x in inputs.items()}, initial_state=state[own], form=form
        )
        torch.testing.assert_close(together[own], alone, rtol=0, atol=1e-12)
        torch.testing.assert_close(final[own], alone_final, rtol=0, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_non_contiguous_inputs_give_the_same_result(form):
    inputs = atpm_inputs(T=70)
    reference = run(atpm, inputs, random_state(), form=form)
    strided = {
        name: x.detach().transpose(0, 1).contiguous().transpose(0, 1).requires_grad_()
        for name, x in inputs.items()
    }
    assert not strided["q"].is_contiguous()
    state = random_state().detach().mT.contiguous().mT.requires_grad_()
    assert_close(run(atpm, strided, state, form=form), reference, 1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_bfloat16_inputs_keep_a_float32_state_and_small_errors(form, record_property):
    inputs = leaves(atpm_inputs(T=200, S=8, Dk=4, Dv=8), torch.bfloat16)
    # Rounding moves s off the unit sphere; the reference is given the same rounded inputs.
    reference = run(atpm, leaves(inputs, torch.float64), form="sequential")
    results = run(atpm, inputs, form=form)
    assert results["state"].dtype == torch.float32
    assert results["y"].dtype == torch.bfloat16
    errors = {name: relative_error(results[name], reference[name]) for name in reference}
    for name, error in errors.items():
        record_property(f"bfloat16 {form}, relative error of {name}", f"{error:.1e}")
    assert errors.pop("state") < 1e-5
    assert max(errors.values()) < 5e-3, errors


@pytest.mark.parametrize("form", FORMS)
def test_no_tokens_return_no_output_and_the_state_as_it_was(form):
    inputs = atpm_inputs(T=0)
    state = random_state()
    y, final = atpm(**inputs, initial_state=state, form=form)
    assert y.shape == (2, 0, 2, 7)
    assert torch.equal(final, state)


def test_final_state_is_none_when_not_asked_for():
    assert atpm(**atpm_inputs(), output_final_state=False)[1] is None


def test_operators_never_change_their_inputs():
    inputs = {name: x.detach() for name, x in atpm_inputs(T=70).items()}
    state = random_state().detach()
    before = {name: x.clone() for name, x in inputs.items()} | {"state": state.clone()}
    for form in FORMS:
        atpm(**inputs, initial_state=state, form=form)
    for name, x in (inputs | {"state": state}).items():
        assert torch.equal(x, before[name]), name

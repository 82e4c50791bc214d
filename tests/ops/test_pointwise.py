"""What surrounds a memory, in one pass on a CPU, against the same composed of torch's operators."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from inputs import assert_close
from torch import Tensor

from fourfold.layers.short_convolution import ShortConvolution
from fourfold.ops import kernels, transport_proposal, without_kernels
from fourfold.ops.pointwise import cross_entropy_sum, rms_norm, swiglu, unit


@pytest.fixture(autouse=True, scope="module")
def _kernels_for_the_smallest():
    before, kernels.FEW = kernels.FEW, 0
    yield
    kernels.FEW = before


PRECISIONS = pytest.mark.parametrize(
    ("dtype", "tolerance"), ((torch.float64, 1e-12), (torch.float32, 5e-6))
)
# A row of one number has a unit gradient of zero, of which rounding is all there is.
SIZES = st.sampled_from((3, 15, 16, 17, 32, 45, 64))


def results(function, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Output and gradients of a loss that weighs the output at random."""
    y = function(**inputs)
    weights = torch.randn(y.shape, generator=torch.Generator().manual_seed(3), dtype=y.dtype)
    gradients = torch.autograd.grad((y * weights).sum(), list(inputs.values()))
    return {"y": y.detach()} | dict(zip(inputs, gradients, strict=True))


def assert_same(function, inputs: dict[str, Tensor], tolerance: float) -> None:
    fused = results(function, inputs)
    with without_kernels():
        composed = results(function, inputs)
    assert "_OnePassBackward" in backward_names(function, inputs), "no kernel ran"
    assert_close(fused, composed, tolerance)


def backward_names(function, inputs: dict[str, Tensor]) -> set[str]:
    """The functions behind the output's gradient."""
    nodes, names = [function(**inputs).grad_fn], set()
    while nodes:
        node = nodes.pop()
        names.add(node.name())
        nodes += [parent for parent, _ in node.next_functions if parent is not None]
    return names


def normal(*shape: int, dtype=torch.float64, scale=1.0) -> Tensor:
    return (scale * torch.randn(*shape, dtype=torch.float64)).to(dtype).requires_grad_()


@PRECISIONS
@settings(max_examples=15, deadline=None)
@given(size=SIZES, heads=st.integers(1, 3))
def test_unit_rows(dtype, tolerance, size, heads):
    x = normal(2, 9, heads, size, dtype=dtype)
    assert_same(lambda x: unit(x, scale=0.7), {"x": x}, tolerance)


@PRECISIONS
@settings(max_examples=15, deadline=None)
@given(size=SIZES, gated=st.booleans(), heads=st.sampled_from((None, 1, 3)))
def test_rms_norm_with_and_without_gate(dtype, tolerance, size, gated, heads):
    shape = (2, 9, size) if heads is None else (2, 9, heads, size)
    inputs = {"x": normal(*shape, dtype=dtype), "weight": normal(size, dtype=dtype)}
    if gated:
        inputs["gate"] = normal(*shape, dtype=dtype, scale=5.0)
    assert_same(lambda **x: rms_norm(**x, eps=1e-6), inputs, tolerance)


@PRECISIONS
@settings(max_examples=10, deadline=None)
@given(size=SIZES)
def test_swiglu(dtype, tolerance, size):
    assert_same(swiglu, {"x": normal(2, 9, 2 * size, dtype=dtype, scale=4.0)}, tolerance)


@PRECISIONS
@settings(max_examples=15, deadline=None)
@given(size=SIZES, rows=st.integers(1, 70))
def test_cross_entropy_leaves_ignored_labels_out(dtype, tolerance, size, rows):
    labels = torch.randint(size, (rows,))
    labels[::3] = -100
    logits = normal(rows, size, dtype=dtype, scale=5.0)
    assert_same(lambda x: cross_entropy_sum(x, labels), {"x": logits}, tolerance)


@PRECISIONS
@settings(max_examples=15, deadline=None)
@given(sizes=st.tuples(SIZES, SIZES, SIZES, SIZES), tokens=st.sampled_from((1, 9, 70)))
def test_transport_proposal(dtype, tolerance, sizes, tokens):
    keys, values, rank, address = sizes
    inputs = dict(
        k=normal(2, tokens, 2, keys, dtype=dtype),
        v=normal(2, tokens, 2, values, dtype=dtype),
        a_k=normal(2, rank, keys, dtype=dtype),
        a_v=normal(2, rank, values, dtype=dtype),
        c=normal(2, address, rank, dtype=dtype),
    )
    assert_same(transport_proposal, inputs, tolerance)


@PRECISIONS
@settings(max_examples=15, deadline=None)
@given(
    lengths=st.lists(st.sampled_from((0, 1, 2, 3, 4, 40)), min_size=1, max_size=5),
    channels=SIZES,
    width=st.integers(1, 5),
    packed=st.booleans(),
    goes_on=st.booleans(),
)
def test_short_convolution(dtype, tolerance, lengths, channels, width, packed, goes_on):
    tokens = sum(lengths) if packed else 9
    offsets = torch.tensor([0, *lengths]).cumsum(0) if packed else None
    sequences, rows = (len(lengths), 1) if packed else (2, 2)
    layer = ShortConvolution(channels, width).to(dtype)
    layer.reset_parameters()
    inputs = {"x": normal(rows, max(tokens, 1) if not packed else tokens, channels, dtype=dtype)}
    if goes_on:
        inputs["state"] = normal(sequences, width - 1, channels, dtype=dtype)
    weight = layer.weight.detach().clone().requires_grad_()

    def convolve(weight, x, state=None):
        y, last = torch.func.functional_call(
            layer, {"weight": weight}, (x, state), {"cu_seqlens": offsets}
        )
        return torch.cat([y.flatten(), last.flatten()])

    if tokens:
        assert_same(convolve, {"weight": weight} | inputs, tolerance)


def test_rows_of_zeros_have_finite_gradients():
    x = torch.zeros(1, 2, 1, 20, requires_grad=True)
    (gradient,) = torch.autograd.grad(unit(x).sum(), x)
    assert torch.isfinite(gradient).all()
    (gradient,) = torch.autograd.grad(rms_norm(x, torch.ones(20), 1e-6).sum(), x)
    assert torch.isfinite(gradient).all()


def test_large_and_infinite_numbers_behave_as_in_torch():
    x = torch.tensor([[[-1e4, -90.0, 90.0, 1e4, float("inf"), float("nan"), 1, 1, 1, 1, 1, 1]]])
    with without_kernels():
        expected = swiglu(x)
    torch.testing.assert_close(swiglu(x), expected, equal_nan=True, rtol=1e-6, atol=1e-30)
    logits = torch.tensor([[1e4, -1e4, 0.0], [float("inf"), 0.0, 0.0], [float("nan"), 0.0, 0.0]])
    for row in logits:
        label = torch.tensor([0])
        with without_kernels():
            expected = cross_entropy_sum(row[None], label)
        torch.testing.assert_close(cross_entropy_sum(row[None], label), expected, equal_nan=True)


def test_a_label_out_of_range_is_refused():
    with pytest.raises(IndexError, match=r"labels must lie in \[0, 5\)"):
        cross_entropy_sum(torch.randn(2, 5), torch.tensor([0, 5]))


def test_second_derivatives_go_through_the_composed_form():
    x, weight = normal(1, 3, 5), normal(5)
    assert torch.autograd.gradgradcheck(lambda x, w: rms_norm(x, w, 1e-6), (x, weight))
    assert torch.autograd.gradgradcheck(unit, (normal(1, 3, 2, 4),))

"""Tensors that grow at their end: as if copied, without being copied."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fourfold.layers import Attention, Mosaic
from fourfold.layers.growing import LEAST_ROOM, appended


@given(
    steps=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 90)), max_size=12),
    dim=st.sampled_from([1, 2]),
    inference=st.booleans(),
)
@settings(deadline=None, max_examples=60)
def test_whatever_grows_out_of_what_everything_holds_what_was_put_there(steps, dim, inference):
    draw = torch.Generator().manual_seed(0)
    shape = [2, 3, 3]
    shape[dim] = 5
    first = torch.randn(shape, generator=draw)
    found, wanted = [first], [first.clone()]
    with torch.inference_mode(inference), torch.no_grad():
        for which, count in steps:
            shape[dim] = count
            new, index = torch.randn(shape, generator=draw), which % len(found)
            found.append(appended(found[index], new, dim))
            wanted.append(torch.cat([wanted[index], new], dim))
    for one, other in zip(found, wanted, strict=True):
        assert torch.equal(one, other)


def test_a_gradient_reaches_what_was_read_before_something_grew_out_of_it():
    held = torch.randn(1, 100, 4)
    with torch.no_grad():
        grown = appended(held, torch.randn(1, 1, 4), 1)
    weight = torch.ones(4, requires_grad=True)
    total = (grown * weight).square().sum()
    with torch.no_grad():
        appended(grown, torch.randn(1, 1, 4), 1)  # writes behind it, in the same memory
    total.backward()
    torch.testing.assert_close(weight.grad, 2 * grown.square().sum((0, 1)))


@pytest.mark.parametrize(
    ("layer", "name"),
    [
        (Attention(hidden_size=12, num_heads=2, head_dim=4), "keys"),
        (Mosaic(hidden_size=12, num_heads=2, head_dim=4, window=9, delay=3), "long.keys"),
    ],
    ids=["attention", "mosaic"],
)
def test_a_step_does_not_copy_what_is_stored(layer, name):
    layer = layer.eval()
    x = torch.randn(1, 100, 12)
    places = []
    with torch.no_grad():
        state = layer(x)[1]
        for t in range(LEAST_ROOM):
            state = layer(x[:, t : t + 1], state)[1]
            places.append(state.named_tensors()[name].data_ptr())
    assert len(set(places)) <= 2

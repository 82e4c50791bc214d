"""Every layer behind the one interface: the same result however the tokens arrive."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fourfold.layers import (
    ATPM,
    LSTM,
    Attention,
    Comba,
    DeltaNet,
    GatedDeltaNet,
    LinearAttention,
    LongShortAttention,
    Mosaic,
    MosaicV1,
)

SIZES = dict(hidden_size=12, num_heads=2, head_dim=4, value_dim=6, chunk_size=8)
HEADS = dict(hidden_size=12, num_heads=4, head_dim=4)
MOSAIC = dict(hidden_size=12, num_heads=2, head_dim=4)

LAYERS = {
    "atpm": lambda: ATPM(**SIZES | dict(key_dim=2)),
    "atpm without convolution": lambda: ATPM(**SIZES | dict(key_dim=2, conv_size=0)),
    "atpm without key view": lambda: ATPM(**SIZES | dict(key_dim=0)),
    "gated_deltanet": lambda: GatedDeltaNet(**SIZES),
    "gated_deltanet, convolution of one": lambda: GatedDeltaNet(**SIZES, conv_size=1),
    "deltanet": lambda: DeltaNet(**SIZES),
    "linear_attention": lambda: LinearAttention(**SIZES),
    "comba": lambda: Comba(**SIZES),
    "attention": lambda: Attention(**HEADS),
    "attention, grouped heads": lambda: Attention(**HEADS, num_kv_heads=2),
    "attention, window": lambda: Attention(**HEADS, sliding_window=5),
    "lstm": lambda: LSTM(hidden_size=12),
    "mosaic": lambda: Mosaic(**MOSAIC, window=5, delay=3, training_delay=(3, 3)),
    "mosaic, a delay a sequence": lambda: Mosaic(
        **MOSAIC, window=4, delay=2, training_delay=(2, 2), delay_draw="sequence"
    ),
    "mosaic_v1": lambda: MosaicV1(**MOSAIC),
    "attention, long and short": lambda: LongShortAttention(**HEADS, window=5, delay=3),
}


@pytest.fixture(params=LAYERS)
def layer(request):
    return make(request.param)


def make(name):
    torch.manual_seed(1)
    layer = LAYERS[name]().double()
    # Larger weights than at the start, so that memories matter in what is compared.
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return layer


def tokens(*shape):
    generator = torch.Generator().manual_seed(2)
    return torch.randn(*shape, 12, generator=generator, dtype=torch.float64)


def assert_same(result, expected):
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-9)


def assert_same_state(layer, state, other, x):
    """Two states are the same if whatever follows comes out the same."""
    assert_same(layer(x, state)[0], layer(x, other)[0])


def test_token_by_token_equals_prefill(layer):
    x = tokens(2, 21)
    whole, final = layer(x)
    state, steps = None, []
    for t in range(21):
        y, state = layer(x[:, t : t + 1], state)
        steps.append(y)
    assert_same(torch.cat(steps, 1), whole)
    assert_same_state(layer, state, final, tokens(2, 4))


@pytest.mark.parametrize("name", LAYERS)
@settings(max_examples=8, deadline=None)
@given(cuts=st.lists(st.integers(0, 30), max_size=4).map(sorted))
def test_uneven_pieces_on_a_warm_state_equal_prefill(name, cuts):
    layer, x = make(name), tokens(2, 30)
    whole, _ = layer(x)
    state, pieces = None, []
    for start, end in zip([0, *cuts], [*cuts, 30], strict=True):
        y, state = layer(x[:, start:end], state)
        pieces.append(y)
    assert_same(torch.cat(pieces, 1), whole)


@pytest.mark.parametrize("name", LAYERS)
@settings(max_examples=8, deadline=None)
@given(lengths=st.lists(st.sampled_from((0, 1, 2, 7, 8, 13)), min_size=1, max_size=4))
def test_packed_sequences_equal_each_alone_on_warm_states_too(name, lengths):
    layer, x = make(name), tokens(1, sum(lengths))
    offsets = torch.tensor([0, *lengths]).cumsum(0)
    y, state = layer(x, cu_seqlens=offsets)
    further, _ = layer(x, state, cu_seqlens=offsets)
    for n in range(len(lengths)):
        own = slice(int(offsets[n]), int(offsets[n + 1]))
        alone, alone_state = layer(x[:, own])
        assert_same(y[:, own], alone)
        assert_same(further[:, own], layer(x[:, own], alone_state)[0])


def test_offsets_of_32_bits_are_as_good(layer):
    x, offsets = tokens(1, 9), torch.tensor([0, 4, 4, 9])
    y, state = layer(x, cu_seqlens=offsets)
    again, _ = layer(x, cu_seqlens=offsets.int())
    assert_same(again, y)
    assert state.sequences == 3


def test_padding_anywhere_is_as_if_it_were_not_there(layer):
    x = tokens(3, 15)
    mask = torch.ones(3, 15, dtype=torch.long)
    mask[0, :6] = 0  # at the left
    mask[1, 10:] = 0  # at the right
    mask[1, 4:6] = 0  # and in the middle
    y, state = layer(x, mask=mask)
    further, _ = layer(x[:, :4], state)
    assert torch.equal(y[mask == 0], torch.zeros_like(y[mask == 0]))
    for row in range(3):
        kept = mask[row].bool()
        alone, alone_state = layer(x[row : row + 1, kept])
        assert_same(y[row : row + 1, kept], alone)
        assert_same(further[row : row + 1], layer(x[row : row + 1, :4], alone_state)[0])


def test_a_row_of_padding_alone_leaves_its_state(layer):
    x = tokens(2, 6)
    _, state = layer(x)
    mask = torch.tensor([[1, 1, 1], [0, 0, 0]])
    _, after = layer(x[:, :3], state, mask=mask)
    row = torch.tensor([1])
    assert_same_state(layer, after.select(row), state.select(row), tokens(1, 5))


def test_what_padding_holds_never_matters(layer):
    x = tokens(2, 9)
    mask = torch.ones(2, 9, dtype=torch.bool)
    mask[0, :4] = False
    poisoned = x.clone()
    poisoned[0, :4] = float("nan")
    assert torch.equal(layer(poisoned, mask=mask)[0], layer(x, mask=mask)[0])


def test_a_future_token_never_changes_a_past_output(layer):
    x = tokens(1, 20)
    changed = x.clone()
    changed[:, 12:] += 1
    y, other = layer(x)[0], layer(changed)[0]
    assert torch.equal(y[:, :12], other[:, :12])
    assert not torch.allclose(y[:, 12:], other[:, 12:])


def test_a_state_is_never_changed_by_going_on_from_it(layer):
    x = tokens(2, 9)
    _, state = layer(x)
    before = {name: tensor.clone() for name, tensor in state.named_tensors().items()}
    layer(x, state)
    layer(x[:, :1], state)
    for name, tensor in state.named_tensors().items():
        assert torch.equal(tensor, before[name]), name


def test_the_empty_state_equals_none(layer):
    x = tokens(2, 9)
    empty = layer.initial_state(2, dtype=torch.float64)
    y, state = layer(x, empty)
    assert_same(y, layer(x)[0])
    assert state.named_tensors().keys() == empty.named_tensors().keys()


def test_no_tokens_return_no_output(layer):
    y, state = layer(tokens(2, 0))
    assert y.shape == (2, 0, 12)
    assert_same_state(layer, state, None, tokens(2, 3))


def test_gradients_flow_through_a_carried_state(layer):
    x = tokens(1, 12).requires_grad_()
    whole = torch.autograd.grad(layer(x)[0][:, 6:].sum(), x)[0]
    _, state = layer(x[:, :6])
    carried = torch.autograd.grad(layer(x[:, 6:], state)[0].sum(), x)[0]
    assert_same(carried, whole)
    assert whole[:, :6].abs().max() > 0


def test_rows_can_be_selected_and_repeated(layer):
    x = tokens(3, 7)
    _, state = layer(x)
    index = torch.tensor([2, 0, 2])
    further = tokens(3, 3)
    expected = torch.stack(
        [layer(further[i : i + 1], state.select(index[i : i + 1]))[0][0] for i in range(3)]
    )
    assert_same(layer(further, state.select(index))[0], expected)


def test_bfloat16_stays_close_to_float32(layer):
    x = tokens(2, 40)
    exact, _ = layer(x)
    rough, state = layer.bfloat16()(x.bfloat16())
    assert rough.dtype == torch.bfloat16
    if "memory" in state.named_tensors():
        assert state.memory.dtype == torch.float32
    assert (rough.double() - exact).norm() < 0.05 * exact.norm()


def test_refusals_are_sentences(layer):
    with pytest.raises(ValueError, match=r"x must have shape \(B, T, hidden_size\)"):
        layer(torch.zeros(2, 3, 11).double())
    with pytest.raises(ValueError, match=r"mask must have shape \(B, T\) = \(2, 3\)"):
        layer(tokens(2, 3), mask=torch.ones(2, 4))
    with pytest.raises(ValueError, match="exclude each other"):
        layer(tokens(1, 3), mask=torch.ones(1, 3), cu_seqlens=torch.tensor([0, 3]))
    for offsets in ([0, 5, 3, 6], [3, 6], [0, 5]):
        with pytest.raises(ValueError, match="cu_seqlens must start at 0, never decrease"):
            layer(tokens(1, 6), cu_seqlens=torch.tensor(offsets))
    with pytest.raises(ValueError, match="B must be 1"):
        layer(tokens(2, 3), cu_seqlens=torch.tensor([0, 3]))
    with pytest.raises(TypeError, match="cu_seqlens must be an int32 or int64 tensor"):
        layer(tokens(1, 3), cu_seqlens=[0, 3])
    _, state = layer(tokens(3, 2))
    with pytest.raises(ValueError, match="state must be of N = 2 sequences"):
        layer(tokens(2, 3), state)
    with pytest.raises(ValueError, match="state must be of N = 2 sequences"):
        layer(tokens(1, 3), state, cu_seqlens=torch.tensor([0, 1, 3]))


def test_window_bounds_the_memory_of_attention():
    layer = make("attention, window")
    state = None
    for _ in range(60):
        _, state = layer(tokens(2, 1), state)
        assert state.positions.shape[1] <= 4


def test_sizes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="num_kv_heads must divide num_heads = 4"):
        Attention(**HEADS, num_kv_heads=3)
    with pytest.raises(ValueError, match="head_dim must be even"):
        Attention(hidden_size=12, num_heads=4, head_dim=3)
    with pytest.raises(ValueError, match="sliding_window must be at least 1"):
        Attention(**HEADS, sliding_window=0)
    with pytest.raises(ValueError, match="decay_init must be one of"):
        GatedDeltaNet(**SIZES, decay_init="random")

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
    packing,
)
from fourfold.layers.reach import ReachingLayer
from fourfold.layers.side_by_side import SideBySide
from fourfold.proof import PROPERTIES, settled
from fourfold.proof.properties import (
    a_future_token_never_changes_a_past_output,
    packed_sequences_equal_each_alone,
    uneven_pieces_equal_all_at_once,
    what_padding_holds_never_matters,
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
    "attention, long and short": lambda: LongShortAttention(
        **HEADS, window=5, delay=3, training_delay=(3, 3)
    ),
}


IN_GROUPS = (ReachingLayer, SideBySide)
EXACT = (what_padding_holds_never_matters, a_future_token_never_changes_a_past_output)


@pytest.fixture(params=LAYERS)
def layer(request):
    return make(request.param)


def make(name):
    torch.manual_seed(1)
    return settled(LAYERS[name]()).train()


def tokens(*shape):
    generator = torch.Generator().manual_seed(2)
    return torch.randn(*shape, 12, generator=generator, dtype=torch.float64)


def assert_same(result, expected):
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("check", PROPERTIES, ids=lambda check: check.__name__)
def test_every_layer_has_the_property(layer, check):
    assert check(layer) <= (0 if check in EXACT else 1e-10)


@pytest.mark.parametrize("name", LAYERS)
@settings(max_examples=8, deadline=None)
@given(cuts=st.lists(st.integers(0, 30), max_size=4).map(sorted))
def test_pieces_cut_anywhere_equal_all_at_once(name, cuts):
    assert uneven_pieces_equal_all_at_once(make(name), cuts, 30) <= 1e-10


@pytest.mark.parametrize("name", LAYERS)
@settings(max_examples=8, deadline=None)
@given(lengths=st.lists(st.sampled_from((0, 1, 2, 7, 8, 13)), min_size=1, max_size=4))
def test_sequences_packed_at_any_length_equal_each_alone(name, lengths):
    assert packed_sequences_equal_each_alone(make(name), lengths) <= 1e-10


@pytest.mark.parametrize("name", [name for name in LAYERS if isinstance(make(name), IN_GROUPS)])
@settings(max_examples=8, deadline=None)
@given(lengths=st.lists(st.sampled_from((0, 1, 2, 7, 8, 13)), min_size=2, max_size=5))
def test_sequences_read_in_groups_of_like_length_equal_each_alone(name, lengths):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "SPARED", 0)  # so short ones would be read in one call
        assert packed_sequences_equal_each_alone(make(name), lengths) <= 1e-10


def test_offsets_of_32_bits_are_as_good(layer):
    x, offsets = tokens(1, 9), torch.tensor([0, 4, 4, 9])
    y, state = layer(x, cu_seqlens=offsets)
    again, _ = layer(x, cu_seqlens=offsets.int())
    assert_same(again, y)
    assert state.sequences == 3


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

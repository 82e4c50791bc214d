"""Modules: how a hidden state becomes the inputs of an op. One file a memory, one interface."""

from fourfold.layers.atpm import ATPM
from fourfold.layers.attention import Attention
from fourfold.layers.base import MemoryLayer
from fourfold.layers.comba import Comba
from fourfold.layers.deltanet import DeltaNet
from fourfold.layers.gated_deltanet import GatedDeltaNet
from fourfold.layers.linear_attention import LinearAttention
from fourfold.layers.lstm import LSTM
from fourfold.layers.mosaic import Mosaic, MosaicV1
from fourfold.layers.state import (
    AttentionState,
    LayerState,
    LSTMState,
    MosaicState,
    PairState,
    RecurrentState,
)

__all__ = [
    "ATPM",
    "LSTM",
    "Attention",
    "AttentionState",
    "Comba",
    "DeltaNet",
    "GatedDeltaNet",
    "LSTMState",
    "LayerState",
    "LinearAttention",
    "MemoryLayer",
    "Mosaic",
    "MosaicState",
    "MosaicV1",
    "PairState",
    "RecurrentState",
]

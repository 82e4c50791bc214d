"""Modules: how a hidden state becomes the inputs of an op. One file a memory, one interface."""

from fourfold.layers.associative_memory import AssociativeMemory
from fourfold.layers.atpm import ATPM
from fourfold.layers.attention import Attention
from fourfold.layers.base import MemoryLayer
from fourfold.layers.comba import Comba
from fourfold.layers.delta_family import DeltaFamilyLayer, KeyValueLayer
from fourfold.layers.deltanet import DeltaNet
from fourfold.layers.gated_deltanet import GatedDeltaNet
from fourfold.layers.linear_attention import LinearAttention
from fourfold.layers.long_short_attention import LongShortAttention
from fourfold.layers.lstm import LSTM
from fourfold.layers.mosaic import Mosaic, MosaicV1
from fourfold.layers.side_by_side import SideBySide
from fourfold.layers.state import (
    AttentionState,
    LayerState,
    LSTMState,
    PairState,
    RecurrentState,
    SideBySideState,
)

__all__ = [
    "ATPM",
    "LSTM",
    "AssociativeMemory",
    "Attention",
    "AttentionState",
    "Comba",
    "DeltaFamilyLayer",
    "DeltaNet",
    "GatedDeltaNet",
    "KeyValueLayer",
    "LSTMState",
    "LayerState",
    "LinearAttention",
    "LongShortAttention",
    "MemoryLayer",
    "Mosaic",
    "MosaicV1",
    "PairState",
    "RecurrentState",
    "SideBySide",
    "SideBySideState",
]

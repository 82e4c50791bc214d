"""Which layer each name in ``layer_types`` stands for, and which fields it is built from."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fourfold.layers import (
    ATPM,
    LSTM,
    Attention,
    Comba,
    DeltaNet,
    GatedDeltaNet,
    LinearAttention,
    LongShortAttention,
    MemoryLayer,
    Mosaic,
    MosaicV1,
)
from fourfold.layers.decay import DECAY_TIMES

if TYPE_CHECKING:
    from fourfold.models.configuration import FourfoldConfig


def _heads(config: FourfoldConfig) -> dict[str, Any]:
    return dict(
        hidden_size=config.hidden_size,
        num_heads=config.num_attention_heads,
        head_dim=config.head_dim,
    )


def _delta(config: FourfoldConfig) -> dict[str, Any]:
    return _heads(config) | dict(
        value_dim=config.value_dim,
        conv_size=config.conv_size,
        norm_eps=config.rms_norm_eps,
        chunk_size=config.chunk_size,
    )


def _decaying(config: FourfoldConfig) -> dict[str, Any]:
    return _delta(config) | dict(
        decay_init=config.decay_init, decay_times=config.decay_times or DECAY_TIMES
    )


def _atpm(config: FourfoldConfig) -> ATPM:
    return ATPM(
        **_decaying(config)
        | dict(
            key_dim=config.key_view_dim,
            value_dim=config.value_dim - config.key_view_dim,
            transport_rank=config.transport_rank,
            unit_query=config.atpm_unit_query,
            rho=config.atpm_rho,
            lam=config.atpm_lambda,
            joint_beta=config.atpm_joint_beta,
        )
    )


def _attending(config: FourfoldConfig) -> dict[str, Any]:
    return _heads(config) | dict(
        num_kv_heads=config.num_key_value_heads, rope_theta=config.rope_theta
    )


def _mosaic(config: FourfoldConfig) -> Mosaic:
    return Mosaic(
        **_heads(config),
        window=config.mosaic_window,
        delay=config.mosaic_delay,
        training_delay=config.long_delays,
        delay_draw=config.mosaic_delay_draw,
    )


LAYER_TYPES: dict[str, Callable[[FourfoldConfig], MemoryLayer[Any]]] = {
    "atpm": _atpm,
    "gated_deltanet": lambda config: GatedDeltaNet(**_decaying(config)),
    "deltanet": lambda config: DeltaNet(**_delta(config)),
    "linear_attention": lambda config: LinearAttention(**_decaying(config)),
    "comba": lambda config: Comba(**_decaying(config), correction=config.comba_correction),
    "attention": lambda config: Attention(
        **_attending(config), sliding_window=config.sliding_window
    ),
    "lstm": lambda config: LSTM(hidden_size=config.hidden_size),
    "mosaic": _mosaic,
    "mosaic_v1": lambda config: MosaicV1(**_heads(config)),
    "attention_long_short": lambda config: LongShortAttention(
        **_attending(config), window=config.mosaic_window, delay=config.mosaic_delay
    ),
}

"""Which layer each name in ``layer_types`` stands for, and which fields it is built from.

The one place of the library that may be added to while it runs, as transformers' Auto classes are.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from fourfold.files import digest_of
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


Build = Callable[["FourfoldConfig"], MemoryLayer[Any]]
"""Makes a layer from a model's configuration."""


def heads_of(config: FourfoldConfig) -> dict[str, Any]:
    """Arguments of a layer with heads: hidden_size, num_heads, head_dim."""
    return dict(
        hidden_size=config.hidden_size,
        num_heads=config.num_attention_heads,
        head_dim=config.head_dim,
    )


def sizes_of(config: FourfoldConfig) -> dict[str, Any]:
    """Arguments of a layer on the delta rule: ``KeyValueSizes``."""
    return heads_of(config) | dict(
        value_dim=config.value_dim,
        conv_size=config.conv_size,
        norm_eps=config.rms_norm_eps,
        chunk_size=config.chunk_size,
    )


def _decaying(config: FourfoldConfig) -> dict[str, Any]:
    return sizes_of(config) | dict(
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
    return heads_of(config) | dict(
        num_kv_heads=config.num_key_value_heads, rope_theta=config.rope_theta
    )


def _divided(config: FourfoldConfig) -> dict[str, Any]:
    return dict(
        window=config.mosaic_window,
        delay=config.mosaic_delay,
        training_delay=config.mosaic_training_delay,
        delay_draw=config.mosaic_delay_draw,
    )


LAYER_TYPES: dict[str, Build] = {
    "atpm": _atpm,
    "gated_deltanet": lambda config: GatedDeltaNet(**_decaying(config)),
    "deltanet": lambda config: DeltaNet(**sizes_of(config)),
    "linear_attention": lambda config: LinearAttention(**_decaying(config)),
    "comba": lambda config: Comba(**_decaying(config), correction=config.comba_correction),
    "attention": lambda config: Attention(
        **_attending(config), sliding_window=config.sliding_window
    ),
    "lstm": lambda config: LSTM(hidden_size=config.hidden_size),
    "mosaic": lambda config: Mosaic(
        **heads_of(config), **_divided(config), shared_gates=config.mosaic_shared_gates
    ),
    "mosaic_v1": lambda config: MosaicV1(**heads_of(config)),
    "attention_long_short": lambda config: LongShortAttention(
        **_attending(config), **_divided(config)
    ),
}

BUILT_IN = frozenset(LAYER_TYPES)

TO_REGISTER = (
    "A memory of your own has to be registered first: register_layer in Python, "
    "fourfold --memory FILE on the command line."
)
"""What to say of a name that is not known."""

Oracle = Callable[[Any, Tensor], Tensor]
"""oracle(layer, x): what a layer returns for x (B, T, hidden_size) from an empty memory, in the
plainest way, for ``fourfold prove`` to compare with; differentiable."""

ORACLES: dict[str, Oracle] = {}

SOURCES: dict[str, str] = {}
"""SHA-256 of the file that registered a memory, or ``UNKNOWN``, by its name."""

UNKNOWN = "unknown"


def register_layer(name: str, build: Build, *, oracle: Oracle | None = None) -> None:
    """Let ``layer_types`` name a memory of your own.

    Under a name that you have given before, it takes that one's place. ``build`` is also called on
    torch's meta device, to count parameters.

    Args:
        name: a word in lower case, which may hold digits and underscores.
        build: makes the layer from the configuration of a model; ``heads_of`` and ``sizes_of`` give
            the usual arguments, and ``config.options_of(name)`` those of your own.
        oracle: see ``Oracle``.

    Raises:
        ValueError: the name is no such word, or belongs to a memory of the library.
    """
    if not re.fullmatch("[a-z][a-z0-9_]*", name):
        raise ValueError(
            "name must be a word in lower case, which may hold digits and underscores; "
            f"got {name!r}."
        )
    if name in BUILT_IN:
        raise ValueError(f"name must be a new one; {name!r} is a memory of the library.")
    LAYER_TYPES[name] = build
    SOURCES[name] = _digest_of(build)
    ORACLES.pop(name, None)
    if oracle is not None:
        ORACLES[name] = oracle


def sources_of(layer_types: Iterable[str]) -> dict[str, dict[str, str]]:
    """What beside a configuration decides what registered memories compute, for the settings of a
    run: {"memories": SHA-256 by name of the file that registered it, as it was then}; {} if all are
    the library's own.
    """
    own = sorted({*layer_types} - BUILT_IN)
    return {"memories": {name: SOURCES[name] for name in own}} if own else {}


def _digest_of(build: Build) -> str:
    """SHA-256 of the file that ``build`` is written in; "unknown" if it is in none."""
    try:
        file = Path(inspect.getsourcefile(build) or "")
    except TypeError:  # a partial, say
        return UNKNOWN
    return digest_of(file) if file.is_file() else UNKNOWN

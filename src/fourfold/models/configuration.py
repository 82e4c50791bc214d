"""The configuration of a fourfold model: which memory stands in which layer, and how large."""

from __future__ import annotations

import copy
import json
from difflib import get_close_matches
from typing import Any

from transformers import PreTrainedConfig

from fourfold.layers.decay import DECAY_INITS, check_decay_times
from fourfold.layers.reach import check_reach
from fourfold.models.registry import BUILT_IN, LAYER_TYPES, TO_REGISTER
from fourfold.models.tokenizer import BOS, EOS, PAD

SIZES = {
    "vocab_size": 1,
    "hidden_size": 1,
    "intermediate_size": 1,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "head_dim": 1,
    "chunk_size": 1,
    "transport_rank": 1,
    "conv_size": 0,
}
"""Integer fields and the least that each may be."""

RUNNING = frozenset({"chunk_size", "use_cache"})
"""Fields that may differ between two configurations of one model."""

OF_LAYERS = {
    "atpm_": {"atpm"},
    "comba_": {"comba"},
    "mosaic_": {"mosaic", "attention_long_short"},
}
"""Layer types that fields of these beginnings are of; to others they say nothing."""


class FourfoldConfig(PreTrainedConfig):
    """Configuration of ``FourfoldModel``; the usual transformers names where there is one.

    Args:
        vocab_size: tokens; the default is ``ByteTokenizer``'s.
        hidden_size: width of the residual stream.
        intermediate_size: width of the SwiGLU feed-forward; None for 8/3 of hidden_size, rounded up
            to a multiple of 8.
        num_hidden_layers: number of blocks; None takes the length of layer_types, or 4.
        layer_types: the memory of each block: "atpm", "gated_deltanet", "deltanet",
            "linear_attention", "comba", "attention", "lstm", "mosaic", "mosaic_v1",
            "attention_long_short" or one of your own, see ``register_layer``; None for "atpm"
            throughout.
        num_attention_heads: H, heads of every layer that has heads.
        num_key_value_heads: key/value heads of attention; None for as many as heads.
        head_dim: S, size of queries and addresses; None for hidden_size / num_attention_heads.
        expand_v: columns of a delta-family state as a multiple of head_dim.
        atpm_key_dim: Dk, columns of those that ATPM gives to the key view; None for a quarter.
        transport_rank: R of ATPM's bilinear proposal.
        atpm_unit_query: scale ATPM's free query to unit norm; False leaves it unconstrained.
        atpm_rho, atpm_lambda: fix ATPM's transport ρ or proximal recall λ; None learns it for each
            token.
        atpm_joint_beta: give both views of ATPM's entity the same strength, βK = βV.
        comba_correction: the output correction with which Comba starts.
        conv_size: width of the delta family's short convolution; 0 for none.
        decay_init: how decaying layers start, "published" or "log_spaced"; see ``layers.decay``.
        decay_times: shortest and longest time, in tokens, over which the heads forget when they
            start "log_spaced"; None for 4 and 4,096.
        chunk_size: tokens a chunk in the delta family's chunked form.
        rope_theta: base of attention's rotary frequencies.
        sliding_window: tokens that attention sees; None for all.
        mosaic_window: h, tokens that the short reach of "mosaic" and "attention_long_short" goes
            back.
        mosaic_delay: m, how far back their long reach begins outside of training.
        mosaic_training_delay: least and greatest m that they draw while training; None for m and h,
            as published.
        mosaic_delay_draw: whether m is drawn for each "call" of a layer, so that the layers of one
            step see several, or for each "sequence".
        mosaic_shared_gates: one gate and one decay for all heads of a memory of "mosaic"; False
            gives each head its own, and so its own time scale.
        layer_options: of memories that were registered, by name: what ``options_of`` gives them.
        rms_norm_eps: epsilon of all norms.
        initializer_range: standard deviation of weights at the start.
        initializer_by_depth: in block l, from 0, weights start with 1/√(2 hidden_size (l + 1)),
            clipped at three times that, in place of initializer_range (arXiv 2507.03285).
        tie_word_embeddings: use the embedding as output map.
        use_cache: return the state when not training.
        pad_token_id, bos_token_id, eos_token_id: the default is ``ByteTokenizer``'s.

    Raises:
        TypeError, ValueError: a sentence that names the field.
    """

    model_type = "fourfold"
    keys_to_ignore_at_inference = ["cache", "past_key_values"]  # noqa: RUF012  the name transformers reads

    vocab_size: int = EOS + 1
    hidden_size: int = 256
    intermediate_size: int = None  # type: ignore[assignment]  # filled in below
    num_hidden_layers: int = None  # type: ignore[assignment]  # filled in below
    layer_types: list[str] = None  # type: ignore[assignment]  # filled in below
    num_attention_heads: int = 4
    num_key_value_heads: int | None = None
    head_dim: int = None  # type: ignore[assignment]  # filled in below
    expand_v: float = 2.0
    atpm_key_dim: int | None = None
    transport_rank: int = 16
    atpm_unit_query: bool = False
    atpm_rho: float | None = None
    atpm_lambda: float | None = None
    atpm_joint_beta: bool = False
    comba_correction: float = 0.02
    conv_size: int = 4
    decay_init: str = "published"
    decay_times: list[float] | None = None
    chunk_size: int = 64
    rope_theta: float = 10_000.0
    sliding_window: int | None = None
    mosaic_window: int = 256
    mosaic_delay: int = 64
    mosaic_training_delay: list[int] | None = None
    mosaic_delay_draw: str = "call"
    mosaic_shared_gates: bool = False
    layer_options: dict[str, dict[str, object]] | None = None
    rms_norm_eps: float = 1e-6
    initializer_range: float = 0.02
    initializer_by_depth: bool = False
    tie_word_embeddings: bool = True
    use_cache: bool = True
    pad_token_id: int | None = PAD
    bos_token_id: int | None = BOS
    eos_token_id: int | list[int] | None = EOS

    def __post_init__(self, **kwargs: Any) -> None:
        for name in ("hidden_size", "num_attention_heads"):
            self._check_size(name)  # other defaults are reckoned from these
        if self.num_hidden_layers is None:
            self.num_hidden_layers = 4 if self.layer_types is None else len(self.layer_types)
        if self.layer_types is None:
            self.layer_types = ["atpm"] * self.num_hidden_layers
        if self.intermediate_size is None:
            self.intermediate_size = -(-self.hidden_size // 3) * 8
        if self.head_dim is None:
            self.head_dim = self.hidden_size // self.num_attention_heads
        for name in ("decay_times", "mosaic_training_delay"):
            if getattr(self, name) is not None:
                setattr(self, name, list(getattr(self, name)))  # as it comes back from a file
        self.layer_options = _as_json_has_them(self.layer_options)
        layer_types = list(self.layer_types)
        super().__post_init__(**kwargs)
        # transformers renames "attention" to a name of its own.
        self.layer_types = layer_types
        self.validate()

    @property
    def value_dim(self) -> int:
        """D, the columns of a delta-family state."""
        return int(self.expand_v * self.head_dim)

    @property
    def key_view_dim(self) -> int:
        """Dk, the columns of those that hold ATPM's key view."""
        return self.value_dim // 4 if self.atpm_key_dim is None else self.atpm_key_dim

    def options_of(self, layer_type: str) -> dict[str, Any]:
        """What ``layer_options`` says of a memory; a copy."""
        return copy.deepcopy((self.layer_options or {}).get(layer_type, {}))

    def initial_std(self, depth: int) -> float:
        """Standard deviation of the weights of block ``depth``, from 0, at the start."""
        if self.initializer_by_depth:
            return (2 * self.hidden_size * (depth + 1)) ** -0.5
        return self.initializer_range

    def identity(self) -> dict[str, Any]:
        """The fields that decide what a model computes; not those of transformers itself, nor those
        that say how it is run, nor those of layers that it does not have."""
        own = FourfoldConfig.__annotations__.keys() - RUNNING
        return _deciding({name: getattr(self, name) for name in sorted(own)})

    @classmethod
    def completed(cls, identity: dict[str, Any]) -> dict[str, Any]:
        """``identity`` as an earlier version wrote it, as this one would.

        A field that came later leaves everything as it was unless it is set.
        """
        own = cls.__annotations__.keys() - RUNNING
        return _deciding({name: getattr(cls, name) for name in sorted(own)} | identity)

    def validate(self) -> None:
        """Refuse what no model can be built from; transformers calls this before saving, too."""
        self._validate_layer_types()
        self._validate_sizes()

    def _validate_layer_types(self) -> None:
        for layer_type in self.layer_types:
            if layer_type not in LAYER_TYPES:
                near = get_close_matches(layer_type, LAYER_TYPES, n=1)
                hint = f" Did you mean {near[0]!r}?" if near else ""
                raise ValueError(
                    f"layer_types must be taken from {', '.join(LAYER_TYPES)}; "
                    f"got {layer_type!r}.{hint} {TO_REGISTER}"
                )
        for name in self.layer_options or ():
            if name in BUILT_IN or name not in self.layer_types:
                own = (
                    ", ".join(sorted(set(self.layer_types) - BUILT_IN)) or "of which there is none"
                )
                raise ValueError(
                    f"layer_options are of registered memories in layer_types, {own}; got {name!r}."
                )
        if len(self.layer_types) != self.num_hidden_layers:
            raise ValueError(
                f"layer_types must name one memory for each of num_hidden_layers = "
                f"{self.num_hidden_layers} layers; got {len(self.layer_types)} names."
            )

    def _check_size(self, name: str) -> None:
        value = getattr(self, name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"{name} must be an integer; got {value!r}.")
        if value < SIZES[name]:
            raise ValueError(f"{name} must be at least {SIZES[name]}; got {value}.")

    def _validate_sizes(self) -> None:
        for name in SIZES:
            self._check_size(name)
        if self.value_dim < 1:
            raise ValueError(
                f"expand_v · head_dim must give at least one column; got {self.expand_v} · "
                f"{self.head_dim}."
            )
        if not 0 <= self.key_view_dim < self.value_dim:
            raise ValueError(
                f"atpm_key_dim must leave a column to the value view: at least 0 and less than "
                f"expand_v · head_dim = {self.value_dim}; got {self.key_view_dim}."
            )
        for name in ("atpm_rho", "atpm_lambda"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1:
                raise ValueError(f"{name} must lie in [0, 1] or be None; got {value}.")
        if self.decay_init not in DECAY_INITS:
            raise ValueError(
                f"decay_init must be one of {', '.join(DECAY_INITS)}; got {self.decay_init!r}."
            )
        if self.decay_times is not None:
            check_decay_times(self.decay_times)
        if OF_LAYERS["mosaic_"].intersection(self.layer_types):
            check_reach(
                self.mosaic_window,
                self.mosaic_delay,
                self.mosaic_training_delay,
                self.mosaic_delay_draw,
                prefix="mosaic_",
            )


def _as_json_has_them(options: Any) -> dict[str, dict[str, object]] | None:
    """Layer options as they come back from a file; None if none are set.

    Raises:
        ValueError: they are no mappings by name, or JSON cannot hold them.
    """
    try:
        found = json.loads(json.dumps(options or {}))
        return {name: dict(own) for name, own in found.items() if own} or None
    except (TypeError, ValueError, AttributeError) as error:
        raise ValueError(
            "layer_options must be a mapping of layer types to mappings that JSON can hold; "
            f"got {options!r}."
        ) from error


def _deciding(identity: dict[str, Any]) -> dict[str, Any]:
    """``identity`` without fields of layers that are not there."""
    has = set(identity["layer_types"] or ())
    others = tuple(start for start, kinds in OF_LAYERS.items() if not kinds & has)
    if not identity["layer_options"]:
        others += ("layer_options",)
    return {name: value for name, value in identity.items() if not name.startswith(others)}

"""A causal language model made of memory layers, by configuration alone.

Legend: B rows, T tokens, N sequences (B, or as many as are packed).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import GenerationMixin, PreTrainedModel
from transformers import initialization as init
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutputWithPast, CausalLMOutputWithPast
from transformers.utils import can_return_tuple

from fourfold.files import follow_umask
from fourfold.layers import LayerState, MemoryLayer
from fourfold.layers.base import Initialised
from fourfold.layers.packing import offsets_of, pack, unpack
from fourfold.layers.side_by_side import SideBySide
from fourfold.models.cache import FourfoldCache
from fourfold.models.compatibility import CACHE_NAME, accepts_past_key_values
from fourfold.models.configuration import FourfoldConfig
from fourfold.models.loss import next_token_loss
from fourfold.models.registry import LAYER_TYPES
from fourfold.ops.pointwise import IGNORED, rms_norm, swiglu


class RMSNorm(nn.Module):
    """torch's, in one pass on a CPU."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return rms_norm(x, self.weight, self.eps)


class FeedForward(nn.Module):
    """SwiGLU (arXiv 2002.05202): the persistent memory that training leaves in the weights."""

    def __init__(self, config: FourfoldConfig) -> None:
        super().__init__()
        self.gate_up_proj = nn.Linear(config.hidden_size, 2 * config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(swiglu(self.gate_up_proj(x)))


class FourfoldBlock(GradientCheckpointingLayer):
    """x + memory(norm(x)), then x + feed_forward(norm(x))."""

    def __init__(self, config: FourfoldConfig, layer_type: str) -> None:
        super().__init__()
        self.memory_norm = RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.memory = LAYER_TYPES[layer_type](config)
        self.feed_forward_norm = RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.feed_forward = FeedForward(config)

    def forward(
        self, x: Tensor, state: LayerState | None, cu_seqlens: Tensor | None
    ) -> tuple[Tensor, LayerState]:
        y, state = self.memory(self.memory_norm(x), state, cu_seqlens=cu_seqlens)
        x = x + y
        return x + self.feed_forward(self.feed_forward_norm(x)), state


class FourfoldPreTrainedModel(PreTrainedModel):
    """Loading, saving and initialisation."""

    config_class = FourfoldConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = ["FourfoldBlock"]  # noqa: RUF012
    _supports_sdpa = True
    _is_stateful = True

    def save_pretrained(
        self, save_directory: str | os.PathLike[str], *args: Any, **kwargs: Any
    ) -> None:
        """As transformers saves; whoever may read the configuration may read the weights."""
        super().save_pretrained(save_directory, *args, **kwargs)
        for path in Path(save_directory).glob("model*.safetensors"):
            follow_umask(path)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        std = getattr(module, "initial_std", self.config.initializer_range)
        if self.config.initializer_by_depth and isinstance(module, nn.Linear):
            init.trunc_normal_(module.weight, std=std, a=-3 * std, b=3 * std)
        if isinstance(module, Initialised):
            for parameter, value in module.initial_values(std):
                init.copy_(parameter, value.to(parameter.device))


class FourfoldModel(FourfoldPreTrainedModel):
    """Embedding, blocks and final norm."""

    def __init__(self, config: FourfoldConfig) -> None:
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(FourfoldBlock(config, kind) for kind in config.layer_types)
        for depth, block in enumerate(self.layers):
            for module in block.modules():
                module.initial_std = config.initial_std(depth)  # type: ignore[assignment]
        self.norm = RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.gradient_checkpointing = False
        self.post_init()

    def new_cache(self) -> FourfoldCache:
        """An empty memory for any number of rows."""
        return FourfoldCache(len(self.layers))

    @accepts_past_key_values
    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        cache: FourfoldCache | None = None,
        inputs_embeds: Tensor | None = None,
        use_cache: bool | None = None,
        cu_seqlens: Tensor | None = None,
        output_hidden_states: bool | None = None,
    ) -> BaseModelOutputWithPast:
        """Read T tokens, going on from ``cache``.

        Args:
            input_ids: (B, T) token numbers; or give inputs_embeds.
            attention_mask: (B, T), or (B, tokens seen + T) of which the last T columns count: 1 at
                tokens, 0 at padding, wherever it stands. Padding is not read.
            cache: the memory, advanced by this call; None starts an empty one if use_cache.
            inputs_embeds: (B, T, hidden_size) in place of input_ids.
            use_cache: keep the new states; None keeps them if a cache is given, or if
                config.use_cache and not training.
            cu_seqlens: (N + 1,) offsets of N sequences packed into B = 1.
            output_hidden_states: also return what enters each block, and the final state.

        Returns:
            last_hidden_state (B, T, hidden_size), zero at padding; cache; hidden_states.

        Raises:
            ValueError: a sentence that names the argument.
        """
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("Give exactly one of input_ids and inputs_embeds.")
        x = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        tokens = x.shape[1]
        if use_cache is None:
            use_cache = cache is not None or (self.config.use_cache and not self.training)
        if cache is None and use_cache:
            cache = self.new_cache()
        elif cache is not None and not isinstance(cache, FourfoldCache):
            raise ValueError(
                f"cache must be a FourfoldCache, as model.new_cache() makes it; "
                f"got {type(cache).__name__}."
            )
        mask = self._local_mask(attention_mask, x, cache)
        if mask is not None and cu_seqlens is not None:
            raise ValueError(
                "attention_mask with padding and cu_seqlens exclude each other: "
                "packed rows have no padding."
            )
        if mask is not None:
            # Padding is taken out before any layer sees it.
            x, cu_seqlens = pack(x, mask), offsets_of(mask)

        self._refuse_reentrant_checkpointing(cache)
        states = [None] * len(self.layers) if cache is None else cache.states
        hidden: list[Tensor] = []
        new_states: list[LayerState | None] = []
        for layer, state in zip(self.layers, states, strict=True):
            if output_hidden_states:
                hidden.append(x)
            x, new_state = layer(x, state, cu_seqlens)
            new_states.append(new_state)
        x = self.norm(x)
        if mask is not None:
            x = unpack(x, mask)
            hidden = [unpack(h, mask) for h in hidden]
        if cache is not None and use_cache:
            if cu_seqlens is None:
                lengths = x.new_full((len(x),), tokens, dtype=torch.long)
            else:
                lengths = cu_seqlens.diff().long()
            cache.advance(new_states, tokens=tokens, lengths=lengths)
        return BaseModelOutputWithPast(
            last_hidden_state=x,
            hidden_states=(*hidden, x) if output_hidden_states else None,
            **{CACHE_NAME: cache if use_cache else None},
        )

    def _refuse_reentrant_checkpointing(self, cache: FourfoldCache | None) -> None:
        """Reentrant checkpointing loses the gradient of a state that is carried on.

        Raises:
            ValueError: saying what to do instead.
        """
        checkpointing = self.gradient_checkpointing and self.training and torch.is_grad_enabled()
        if cache is None or not checkpointing:
            return
        checkpoint = self._gradient_checkpointing_func
        if getattr(checkpoint, "keywords", {}).get("use_reentrant", True):
            raise ValueError(
                "Reentrant gradient checkpointing loses the gradient of the state in the cache: "
                'enable it with {"use_reentrant": False}, or train without a cache.'
            )

    @staticmethod
    def _local_mask(mask: Tensor | None, x: Tensor, cache: FourfoldCache | None) -> Tensor | None:
        """(B, T) boolean, or None if every position is a token."""
        if mask is None:
            return None
        rows, tokens = x.shape[:2]
        seen = 0 if cache is None else cache.tokens_seen
        if mask.ndim != 2 or mask.shape[0] != rows or mask.shape[1] not in (tokens, seen + tokens):
            raise ValueError(
                f"attention_mask must have shape (B, T) = ({rows}, {tokens}) or, with {seen} "
                f"tokens in the cache, ({rows}, {seen + tokens}); got {tuple(mask.shape)}."
            )
        mask = mask[:, mask.shape[1] - tokens :].bool()
        return None if bool(mask.all()) else mask


class FourfoldForCausalLM(FourfoldPreTrainedModel, GenerationMixin):
    """``FourfoldModel`` with an output map: trains, generates, saves and loads like any other."""

    accepts_loss_kwargs = True  # tells transformers' Trainer of num_items_in_batch
    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}  # noqa: RUF012

    def __init__(self, config: FourfoldConfig) -> None:
        super().__init__(config)
        self.model = FourfoldModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.loss_function = next_token_loss
        self.post_init()

    def new_cache(self) -> FourfoldCache:
        """An empty memory for any number of rows."""
        return self.model.new_cache()

    def memories(self) -> Iterator[MemoryLayer[Any]]:
        """The memory layer of each block, first to last."""
        for block in self.model.layers:
            assert isinstance(block, FourfoldBlock)
            yield block.memory

    def disable(self, *names: str) -> None:
        """Let nothing be read from these memories of a block, such as "long"; none enables all.

        They go on storing, so that they can be enabled again at any time.

        Raises:
            ValueError: no layer has a memory of that name; the sentence says which there are.
        """
        known = self.named_memories()
        for name in names:
            if name not in known:
                raise ValueError(
                    f"disable takes names of memories that blocks have side by side, which are "
                    f"{', '.join(known) or 'none in this model'}; got {name!r}."
                )
        for layer in self._side_by_side():
            layer.disabled = set(names) & set(layer.memories)

    @contextmanager
    def without(self, *names: str) -> Iterator[None]:
        """Disable these memories for a while; afterwards all are as they were.

        Raises:
            ValueError: as ``disable``.
        """
        before = [(layer, layer.disabled) for layer in self._side_by_side()]
        self.disable(*names)
        try:
            yield
        finally:
            for layer, disabled in before:
                layer.disabled = disabled

    def named_memories(self) -> list[str]:
        """Names of the memories that blocks have side by side, which ``disable`` takes."""
        return sorted({name for layer in self._side_by_side() for name in layer.memories})

    def _side_by_side(self) -> list[SideBySide]:
        return [memory for memory in self.memories() if isinstance(memory, SideBySide)]

    @accepts_past_key_values
    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        cache: FourfoldCache | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        cu_seqlens: Tensor | None = None,
        output_hidden_states: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        num_items_in_batch: Tensor | int | None = None,
    ) -> CausalLMOutputWithPast:
        """``FourfoldModel.forward`` and the logits.

        Args:
            labels: (B, T) as input_ids, shifted here; −100 is not counted. With cu_seqlens the
                first token of a sequence is not counted either: its predecessor is a stranger.
            logits_to_keep: only the last so many positions (0 for all), or the positions at these
                indices.
            num_items_in_batch: divisor of the loss in place of the number of labels here, as
                transformers' Trainer gives it when it accumulates gradients.

        Returns:
            loss if labels are given, logits (B, T, vocab_size), cache, hidden_states.
        """
        outputs = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            cache=cache,
            inputs_embeds=inputs_embeds,
            use_cache=use_cache,
            cu_seqlens=cu_seqlens,
            output_hidden_states=output_hidden_states,
        )
        kept = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        logits = self.lm_head(outputs.last_hidden_state[:, kept])
        loss = None
        if labels is not None:
            if cu_seqlens is not None:
                starts = cu_seqlens[:-1][cu_seqlens.diff() > 0]
                labels = labels.index_fill(1, starts.long(), IGNORED)
            loss = self.loss_function(
                logits, labels, self.config.vocab_size, num_items_in_batch=num_items_in_batch
            )
        return CausalLMOutputWithPast(
            loss=loss,
            logits=logits,
            hidden_states=outputs.hidden_states,
            **{CACHE_NAME: getattr(outputs, CACHE_NAME)},
        )

    @wraps(GenerationMixin.prepare_inputs_for_generation)
    def prepare_inputs_for_generation(
        self, input_ids: Tensor, next_sequence_length: int | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        # A cache that has seen the whole prompt leaves nothing to predict from, and transformers
        # would read some of it again.
        if next_sequence_length is not None and next_sequence_length < 1:
            raise ValueError(
                f"The cache has seen {input_ids.shape[1] - next_sequence_length} tokens, and the "
                f"prompt holds only {input_ids.shape[1]}: pass what it has seen followed by new "
                "tokens, or only the new tokens with an attention_mask over both."
            )
        return super().prepare_inputs_for_generation(
            input_ids, next_sequence_length=next_sequence_length, **kwargs
        )

    def _prepare_cache_for_generation(
        self,
        generation_config: Any,
        model_kwargs: dict[str, Any],
        generation_mode: Any,
        batch_size: int,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Give ``generate`` a memory of our kind; one that the user passed is left as it is."""
        if generation_config.cache_implementation is not None:
            raise ValueError(
                "cache_implementation has no meaning for a fourfold model, whose memory has one "
                f"form; got {generation_config.cache_implementation!r}."
            )
        given = model_kwargs.get(CACHE_NAME)
        if given is None:
            if generation_config.use_cache is not False:
                model_kwargs[CACHE_NAME] = self.new_cache()
            return
        if generation_config.use_cache is False:
            raise ValueError("A cache was given, but use_cache=False asks to go without one.")
        fork = given.fork()
        copies = max(generation_config.num_beams or 1, generation_config.num_return_sequences or 1)
        if copies > 1 and fork.batch_size == batch_size:
            fork.batch_repeat_interleave(copies)
        model_kwargs[CACHE_NAME] = fork

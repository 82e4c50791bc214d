"""Which token of which sequence a layer sees."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

import torch
from torch import Tensor
from typing_extensions import Self

from fourfold.models import FourfoldForCausalLM, FourfoldModel
from fourfold.models.compatibility import CACHE_NAME


class Places(AbstractContextManager["Places"]):
    """Follows a model from call to call, while it is entered.

    Sequences are numbered from 0 in the order in which they come. A call that goes on with the
    cache of the call before goes on with its sequences; any other begins new ones, at the place
    where its cache stands.

    Attributes:
        layout: (B, T) as layers see it, B = 1 where sequences are packed.
        sequence, position, token: (L,) of all tokens of this call, sequence after sequence; token
            is −1 where the model was given embeddings.
    """

    layout: tuple[int, int]
    sequence: Tensor
    position: Tensor
    token: Tensor

    def __init__(self, model: FourfoldForCausalLM, after: Callable[[], None] | None = None) -> None:
        self._model, self._after = model.model, after
        self._cache: Any = None
        self._numbers: Tensor | None = None
        self._next: Tensor | None = None
        self._count = 0

    def __enter__(self) -> Self:
        self._hooks = [
            self._model.register_forward_pre_hook(self._before, with_kwargs=True),
            self._model.register_forward_hook(self._finish),
        ]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for hook in self._hooks:
            hook.remove()

    def positions(self) -> Tensor:
        """(B, T) positions in the layout of layers."""
        return self.position.view(self.layout)

    def _finish(self, model: FourfoldModel, args: Any, output: Any) -> None:
        # A call that was given no cache may have made one.
        self._cache = getattr(output, CACHE_NAME, None)
        if self._after is not None:
            self._after()

    def _before(self, model: FourfoldModel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        names = ("input_ids", "attention_mask", "cache", "inputs_embeds")
        given = dict(zip(names, args, strict=False)) | kwargs
        ids, embeds = given.get("input_ids"), given.get("inputs_embeds")
        x = ids if embeds is None else embeds
        if x is None:
            return  # the model itself refuses this
        cache = given.get("cache", given.get("past_key_values"))
        mask = model._local_mask(given.get("attention_mask"), x, cache)
        offsets = given.get("cu_seqlens")
        rows, tokens = x.shape[:2]
        ids = x.new_full((rows, tokens), -1, dtype=torch.long) if embeds is not None else x
        if mask is not None:
            lengths, self.token = mask.sum(1).cpu(), ids[mask].cpu()
            self.layout = (1, int(lengths.sum()))
        elif offsets is not None:
            lengths, self.token = offsets.diff().long().cpu(), ids.flatten().cpu()
            self.layout = (rows, tokens)
        else:
            lengths, self.token = torch.full((rows,), tokens), ids.flatten().cpu()
            self.layout = (rows, tokens)
        self._number(lengths, cache)

    def _number(self, lengths: Tensor, cache: Any) -> None:
        goes_on = cache is not None and cache is self._cache and cache.tokens_seen > 0
        if not goes_on or self._numbers is None or len(self._numbers) != len(lengths):
            self._numbers = torch.arange(self._count, self._count + len(lengths))
            self._next = torch.full_like(self._numbers, 0 if cache is None else cache.tokens_seen)
            self._count += len(lengths)
        assert self._next is not None
        self.sequence = self._numbers.repeat_interleave(lengths)
        starts = self._next.repeat_interleave(lengths)
        within = torch.cat([torch.arange(int(length)) for length in lengths])
        self.position = starts + within
        self._next = self._next + lengths

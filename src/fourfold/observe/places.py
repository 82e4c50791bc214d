"""Which token of which sequence a layer sees."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

import torch
from torch import Tensor
from typing_extensions import Self

from fourfold.models import FourfoldCache, FourfoldForCausalLM, FourfoldModel
from fourfold.models.compatibility import CACHE_NAME


class Places(AbstractContextManager["Places"]):
    """Follows a model from call to call, while it is entered.

    Sequences are numbered from 0 in the order in which they come. What goes on from a state goes on
    with the sequence that led to it, in whatever fork or row of a cache; when another went on from
    that state before, a new sequence begins where the two part. So no two tokens have the same
    place in the same sequence.

    Attributes:
        layout: (B, T) as layers see it, B = 1 where sequences are packed.
        sequence, position, token: (L,) of all tokens of this call, sequence after sequence; token
            is −1 where the model was given embeddings. Padding has no position.
        text: (L,) which of the texts a token belongs to. A text is a sequence with all that parted
            from it; they are numbered from 0 in the order in which they come.
    """

    layout: tuple[int, int]
    sequence: Tensor
    position: Tensor
    token: Tensor
    text: Tensor

    def __init__(self, model: FourfoldForCausalLM, after: Callable[[], None] | None = None) -> None:
        self._model, self._after = model.model, after
        self._ends: list[int] = []
        self._texts: list[int] = []
        self._numbers: list[int] = []

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

    def in_layout(self, x: Tensor) -> Tensor:
        """(B, T) in the layout of layers, from (L,)."""
        return x.view(self.layout)

    def _finish(self, model: FourfoldModel, args: Any, output: Any) -> None:
        parts = output if isinstance(output, tuple) else (getattr(output, CACHE_NAME, None),)
        for part in parts:
            if isinstance(part, FourfoldCache):
                part.notes[self] = torch.tensor(self._numbers)
        if self._after is not None:
            self._after()

    def _before(self, model: FourfoldModel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        names = ("input_ids", "attention_mask", "cache", "inputs_embeds")
        given = dict(zip(names, args, strict=False)) | kwargs
        ids, embeds = given.get("input_ids"), given.get("inputs_embeds")
        x = ids if embeds is None else embeds
        cache = given.get("cache", given.get("past_key_values"))
        if x is None or not (cache is None or isinstance(cache, FourfoldCache)):
            return  # The model itself refuses this, and a cache of other rows.
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
        if cache is None or cache.lengths is None or len(cache.lengths) == len(lengths):
            self._number(lengths, cache)

    def _number(self, lengths: Tensor, cache: FourfoldCache | None) -> None:
        starts, before = torch.zeros_like(lengths), torch.full_like(lengths, -1)
        if cache is not None and cache.lengths is not None:
            starts = cache.lengths.cpu()
            before = cache.notes.get(self, before).cpu()
        self._numbers = []
        rows = zip(starts.tolist(), lengths.tolist(), before.tolist(), strict=True)
        for start, length, known in rows:
            taken = known < 0 or known in self._numbers or self._ends[known] != start
            number = self._begun(start, known) if taken else known
            self._ends[number] = start + length
            self._numbers.append(number)
        texts = torch.tensor([self._texts[number] for number in self._numbers])
        self.sequence = torch.tensor(self._numbers).repeat_interleave(lengths)
        self.text = texts.repeat_interleave(lengths)
        within = torch.cat([torch.arange(int(length)) for length in lengths])
        self.position = starts.repeat_interleave(lengths) + within

    def _begun(self, start: int, parent: int) -> int:
        """The number of a new sequence, that parts from another, or from none if that is −1."""
        text = max(self._texts, default=-1) + 1 if parent < 0 else self._texts[parent]
        self._ends.append(start)
        self._texts.append(text)
        return len(self._ends) - 1

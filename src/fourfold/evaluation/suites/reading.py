"""A causal model that has read something, and what it makes of it."""

from __future__ import annotations

import copy
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from fourfold.models.compatibility import CACHE_NAME

ROWS, TOKENS = 32, 1 << 16
"""Continuations that are weighed side by side, and tokens that all of their caches hold: a cache
that grows with what was read is copied for each of them."""


@dataclass(frozen=True)
class Reading:
    """A model behind some tokens; reading on leaves it as it is, so that one reading serves many
    questions.

    Works through transformers' interface alone, for models of this library as for any other whose
    cache can be copied.

    Attributes:
        model: any causal model, in evaluation mode.
        cache: its memory of what was read.
        logits: (V,) of the token that comes next.
        seen: how many tokens were read.
    """

    model: PreTrainedModel
    cache: Any
    logits: Tensor
    seen: int = 0

    @classmethod
    def of(cls, model: PreTrainedModel, tokens: Sequence[int]) -> Reading:
        """What ``model`` holds after ``tokens``.

        Raises:
            ValueError: there is no token, or the model cannot read so many.
        """
        return cls(model, None, torch.empty(0)).further(tokens)

    def further(self, tokens: Sequence[int]) -> Reading:
        """The reading after ``tokens`` more.

        Raises:
            ValueError: as ``of``.
        """
        if not tokens:
            raise ValueError("tokens must be one or more; got none.")
        cache = copy.deepcopy(self.cache)
        read = torch.tensor([list(tokens)], device=self.model.device)
        logits, cache = _call(self.model, read, cache, self.seen, keep=1)
        return Reading(self.model, cache, logits[0, -1], self.seen + len(tokens))

    def nats(self, continuations: Sequence[Sequence[int]]) -> list[float]:
        """Minus the log-likelihood of each continuation, of one token or more, in nats."""
        first = self.logits.float().log_softmax(-1)
        found: list[float] = []
        side = _side_by_side(self.cache, self.seen)
        for start in range(0, len(continuations), side):
            rows = continuations[start : start + side]
            found += [-float(first[row[0]]) for row in rows]
            longest = max(map(len, rows)) - 1
            if longest == 0:
                continue
            cache = copy.deepcopy(self.cache)
            if len(rows) > 1:
                cache.batch_repeat_interleave(len(rows))
            # What stands behind a shorter row is never read by it.
            fed = torch.tensor([[*row[:-1], *[0] * (longest + 1 - len(row))] for row in rows])
            logits, _ = _call(self.model, fed.to(self.model.device), cache, self.seen)
            likely = logits.float().log_softmax(-1)
            for number, row in enumerate(rows):
                places = torch.arange(len(row) - 1)
                found[start + number] -= float(likely[number, places, list(row[1:])].sum())
        return found

    def say(self, count: int, ends: Collection[int]) -> list[int]:
        """The ``count`` likeliest tokens, one after another, up to one of ``ends``, left out."""
        said: list[int] = []
        cache, logits = copy.deepcopy(self.cache), self.logits
        while len(said) < count:
            token = int(logits.argmax())
            if token in ends:
                break
            said.append(token)
            fed = torch.tensor([[token]], device=self.model.device)
            found, cache = _call(self.model, fed, cache, self.seen + len(said), keep=1)
            logits = found[0, -1]
        return said


def whole_reading(model: PreTrainedModel, tokens: Tensor) -> Tensor:
    """Logits (T, V) behind each of ``tokens`` (T,), read from nothing.

    Raises:
        ValueError: the model cannot read so many.
    """
    logits, _ = _call(model, tokens[None], None, 0)
    return logits[0]


def _side_by_side(cache: Any, seen: int) -> int:
    """How many copies of a cache may stand side by side; 1 where it cannot be repeated."""
    layers = getattr(cache, "layers", None) or [cache]
    if not all(hasattr(layer, "batch_repeat_interleave") for layer in layers):
        return 1
    return max(1, min(ROWS, TOKENS // seen))


def _call(
    model: PreTrainedModel, tokens: Tensor, cache: Any, seen: int, keep: int | None = None
) -> tuple[Tensor, Any]:
    """Logits of all of ``tokens``, or of the last ``keep``, and the memory behind them.

    Args:
        seen: tokens that ``cache`` holds.
    """
    wanted = {} if keep is None else {"logits_to_keep": keep}
    with torch.no_grad():
        try:
            out = model(tokens, use_cache=True, **{CACHE_NAME: cache}, **wanted)
        except IndexError as error:
            length = seen + tokens.shape[1]
            raise ValueError(
                f"A {type(model).__name__} with these settings cannot read {length:,} tokens: "
                f"{error}."
            ) from error
    return out.logits, getattr(out, CACHE_NAME)

"""A stand-in for a model that looks its answers up, and remembers what it was fed."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import torch
from torch import Tensor, nn

from fourfold.tasks.example import Example, Question


class Rows:
    """What a scripted model has read, row by row."""

    def __init__(self) -> None:
        self.rows: list[list[int]] = []

    def fork(self) -> Rows:
        fork = Rows()
        fork.rows = [list(row) for row in self.rows]
        return fork

    def select(self, index: Tensor) -> None:
        self.rows = [list(self.rows[i]) for i in index.tolist()]


class ScriptedModel(nn.Module):
    """Says to every question of ``examples`` what ``reply`` gives, end included if it gives one.

    Hidden states are one-hot rows of the next token, so that the output map is the identity.
    """

    def __init__(
        self,
        examples: list[Example],
        vocab_size: int,
        reply: Callable[[Question], tuple[int, ...]],
    ) -> None:
        super().__init__()
        self.vocab_size = vocab_size
        self.script = {
            (*example.context, *question.prompt): reply(question)
            for example in examples
            for question in example.questions
        }
        self.fed = 0
        self.lm_head = nn.Identity()

    def new_cache(self) -> Rows:
        return Rows()

    def model(
        self, tokens: Tensor, *, cache: Rows, attention_mask: Tensor | None = None
    ) -> SimpleNamespace:
        self.fed += tokens.shape[1]
        mask = torch.ones_like(tokens) if attention_mask is None else attention_mask
        if not cache.rows:
            cache.rows = [[] for _ in tokens]
        for row, new, real in zip(cache.rows, tokens.tolist(), mask.tolist(), strict=True):
            row.extend(token for token, is_real in zip(new, real, strict=True) if is_real)
        hidden = torch.zeros(*tokens.shape, self.vocab_size)
        for number, row in enumerate(cache.rows):
            hidden[number, -1, self.next_token(tuple(row))] = 1
        return SimpleNamespace(last_hidden_state=hidden)

    def forward(self, tokens: Tensor, *, cache: Rows, logits_to_keep: int) -> SimpleNamespace:
        hidden = self.model(tokens, cache=cache).last_hidden_state
        return SimpleNamespace(logits=hidden[:, -logits_to_keep:])

    def next_token(self, read: tuple[int, ...]) -> int:
        for start in range(len(read) + 1):
            said = read[len(read) - start :]
            reply = self.script.get(read[: len(read) - start])
            if reply is not None and reply[:start] == said and start < len(reply):
                return reply[start]
        return 0

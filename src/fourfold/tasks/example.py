"""What a task is made of: something to read, and questions about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fourfold.ops.pointwise import IGNORED

Kind = Literal["plain", "current", "untouched", "empty", "told", "known"]
"""What a part of an answer is about: an item that was changed, one that no change named, one that
holds nothing; what the context told, what no context tells for it never changes; "plain" where
there is nothing to tell apart."""


@dataclass(frozen=True)
class Part:
    """A piece of an answer that is right or wrong as a whole.

    Attributes:
        tokens: what is right.
        kind: see ``Kind``.
        stale: what would have been right earlier, and is no longer.
    """

    tokens: tuple[int, ...]
    kind: Kind = "plain"
    stale: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class Question:
    """A question and its answer.

    If an answer has several parts, each part has as many tokens as its stale versions.

    Attributes:
        prompt: tokens that ask.
        parts: the answer, without the token that ends it.
        end: the token that ends an answer.
    """

    prompt: tuple[int, ...]
    parts: tuple[Part, ...]
    end: int

    @property
    def answer(self) -> tuple[int, ...]:
        """All that has to be said, its end included."""
        return (*(token for part in self.parts for token in part.tokens), self.end)


@dataclass(frozen=True)
class Example:
    """Something to read, and what is asked about it.

    Attributes:
        context: the tokens to read.
        load: how hard it is, on the task's own scale.
        questions: asked after the context, each answered token by token.
        probes: pairs of a place in the context and the token to be named once that place has been
            read; the answer itself is not read.
        task: which task of a mixture it belongs to.
    """

    context: tuple[int, ...]
    load: int
    questions: tuple[Question, ...] = ()
    probes: tuple[tuple[int, int], ...] = ()
    task: str = ""

    def sequence(self) -> tuple[list[int], list[int]]:
        """Tokens to train on, and at each place the token to be predicted there or IGNORED.

        All questions follow each other; the last token, which nothing follows, is left out.
        """
        tokens, targets = list(self.context), [IGNORED] * len(self.context)
        for place, token in self.probes:
            targets[place] = token
        for question in self.questions:
            answer = question.answer
            tokens += [*question.prompt, *answer]
            targets += [IGNORED] * (len(question.prompt) - 1) + [*answer, IGNORED]
        return (tokens[:-1], targets[:-1]) if self.questions else (tokens, targets)

"""Persistent knowledge: what a model knows with its long memory, and without."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from random import Random

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from fourfold.data.words import Words
from fourfold.evaluation.bits import windows
from fourfold.evaluation.positions import PositionTotals
from fourfold.evaluation.suites.questions import Asked, plain, read_questions
from fourfold.evaluation.suites.reading import Reading, whole_reading
from fourfold.evaluation.suites.suite import Row, Suite, asking, shares, text_tokens
from fourfold.models import FourfoldForCausalLM

BOOKS = ("closed", "open")
"""Whether the passage that answers a question is read before it."""


class KnowledgeSuite(Suite):
    """Questions by themselves, which only the weights can answer, and behind the passage that
    answers them, which a memory can; and the loss on text. All of it with every memory, and again
    without those in ``disable``, if the model has such.

    A question is answered by the likeliest a byte of several answers, its own and those of other
    questions, of the same passage if there are such.

    Source: seed 003, section 3.2: without its long memory, the published model lost 0.2 points on
    13 benchmarks of facts and 7.2 on 6 that need what was read.

    Attributes:
        data: questions, see ``read_questions``.
        text: files of text for the loss; None for no loss.
        length: tokens of text that are read at once, each such window from nothing.
        windows: how many of them, spread evenly over the text.
        choices: answers to choose from.
    """

    name = "knowledge"

    disable: tuple[str, ...] = ("long",)
    text: Path | None = None
    length: int = Field(default=512, ge=2)
    windows: int = Field(default=32, ge=1)
    choices: int = Field(default=4, ge=2)

    def run(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Iterator[Row]:
        words = Words(tokenizer)
        questions = self._questions()
        batch = None
        if self.text is not None:
            stream = torch.tensor(text_tokens(self.text, words))
            batch = windows(stream, length=self.length, count=self.windows)
        has = model.named_memories() if isinstance(model, FourfoldForCausalLM) else []
        # A model without any such memory is asked once; a name that none of several has is refused.
        for silent in [()] + [self.disable] * bool(has and self.disable):
            with asking(model, silent):
                for book in BOOKS:
                    right = [
                        _knows(model, words, asked, choices, book) for asked, choices in questions
                    ]
                    row = {"part": f"facts, {book} book", "disabled": list(silent)}
                    yield row | {"chance": 1 / self.choices} | shares(*([one] for one in right))
                if batch is not None:
                    yield {"part": "text", "disabled": list(silent)} | _loss(model, batch)

    def _questions(self) -> list[tuple[Asked, list[str]]]:
        """Questions, each with its own answer first and then others'."""
        random = Random(f"knowledge {self.seed}")
        every = read_questions(self.data)
        known = {plain(one.answers[0]): one.answers[0] for one in every}
        near: dict[str, set[str]] = {}
        for one in every:
            near.setdefault(one.passage, set()).add(plain(one.answers[0]))
        found = []
        for asked in random.sample(every, min(self.examples, len(every))):
            own = {plain(answer) for answer in asked.answers}
            # What was read as well cannot be told from the answer without the question.
            beside = sorted(near[asked.passage] - own)
            others = sorted(known.keys() - own - set(beside))
            if len(beside) + len(others) < self.choices - 1:
                raise ValueError(
                    f"choices must be at most {len(beside) + len(others) + 1}, the different "
                    f"answers in {self.data}; got {self.choices}."
                )
            random.shuffle(beside)
            wrong = beside[: self.choices - 1]
            wrong += random.sample(others, self.choices - 1 - len(wrong))
            found.append((asked, [asked.answers[0], *(known[name] for name in wrong)]))
        return found


def _knows(
    model: PreTrainedModel, words: Words, asked: Asked, choices: list[str], book: str
) -> bool:
    """Whether the first of ``choices`` is the likeliest a byte."""
    passage = f"{asked.passage}\n\n" if book == "open" else ""
    reading = Reading.of(
        model, words.opening + words.tokens(f"{passage}Question: {asked.question}\nAnswer:")
    )
    nats = reading.nats([words.tokens(f" {choice}") for choice in choices])
    own, *others = (one / len(text.encode()) for one, text in zip(nats, choices, strict=True))
    return own < min(others)


def _loss(model: PreTrainedModel, batch: Tensor) -> Row:
    totals = PositionTotals()
    for row in batch.to(model.device):
        logits = whole_reading(model, row)[:-1].float()
        losses = F.cross_entropy(logits, row[1:], reduction="none")
        totals.add(torch.arange(1, len(row)), losses.cpu())
    return {
        "nats": totals.nats / totals.tokens,
        "tokens": totals.tokens,
        "by_position": [asdict(part) for part in totals.parts()],
    }

"""What a model answers, token by token, through its state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor

from fourfold.evaluation.mode import measuring
from fourfold.models import FourfoldCache, FourfoldForCausalLM
from fourfold.tasks.example import Example, Question
from fourfold.tasks.task import Task


@dataclass(frozen=True)
class Answer:
    """What was said to one question, or named at one probe.

    Attributes:
        example: number of the example in the list that was given.
        question: what was asked; None for a probe.
        said: the tokens, the end included if it was said, and at most as many as the longest
            answer that is asked for beside this one.
        right: the tokens that were asked for.
    """

    example: int
    question: Question | None
    said: tuple[int, ...]
    right: tuple[int, ...]


def check_symbols(model: FourfoldForCausalLM, task: Task) -> None:
    """See that ``model`` has the vocabulary of ``task``.

    Raises:
        ValueError: it does not.
    """
    if task.vocab_size != model.config.vocab_size:
        raise ValueError(
            f"{task.name} has {task.vocab_size} symbols and the model {model.config.vocab_size}: "
            "it was trained on another task, or on other fields of it."
        )


def decode(
    model: FourfoldForCausalLM, examples: Sequence[Example], *, batch_size: int = 128
) -> list[Answer]:
    """Greedy answers to every question, in the order of examples and questions.

    A context is read once. Each question goes on from the state behind it, as if it were the first,
    and each token that is said is fed back; nothing is read twice. Probes are answered where they
    stand, in the same reading.

    Args:
        batch_size: contexts read side by side.
    """
    answers: list[Answer] = []
    order = sorted(range(len(examples)), key=lambda number: len(examples[number].context))
    with measuring(model):
        for start in range(0, len(order), batch_size):
            numbers = order[start : start + batch_size]
            answers += _answer(model, numbers, [examples[number] for number in numbers])
    # The sort is stable, so the questions of an example stay in their order.
    return sorted(answers, key=lambda answer: answer.example)


def _answer(
    model: FourfoldForCausalLM, numbers: Sequence[int], examples: Sequence[Example]
) -> Iterator[Answer]:
    cache = model.new_cache()
    tokens, mask = _right_aligned([example.context for example in examples])
    hidden = model.model(tokens, attention_mask=mask, cache=cache).last_hidden_state
    for row, (number, example) in enumerate(zip(numbers, examples, strict=True)):
        if example.probes:
            # The output map is large where the vocabulary is: only what is asked for.
            places = torch.tensor([place for place, _ in example.probes]) - len(example.context)
            named = model.lm_head(hidden[row, places]).argmax(-1).tolist()
            for said, (_, token) in zip(named, example.probes, strict=True):
                yield Answer(number, None, (said,), (token,))

    asked = [
        (row, question) for row, example in enumerate(examples) for question in example.questions
    ]
    # Prompts of one length are asked side by side.
    asked.sort(key=lambda item: len(item[1].prompt))
    answered: dict[int, list[Answer]] = {row: [] for row in range(len(examples))}
    for _, group in groupby(asked, key=lambda item: len(item[1].prompt)):
        together = list(group)
        fork = cache.fork()
        fork.select(torch.tensor([row for row, _ in together]))
        replies = _say(model, fork, [question for _, question in together])
        for (row, question), reply in zip(together, replies, strict=True):
            answered[row].append(Answer(numbers[row], question, reply, question.answer))
    for found in answered.values():
        yield from found


def _say(
    model: FourfoldForCausalLM, cache: FourfoldCache, questions: Sequence[Question]
) -> list[tuple[int, ...]]:
    """Feed the prompts, all of one length, and let each row speak until it ends."""
    longest = max(_longest(question) for question in questions)
    ends = torch.tensor([question.end for question in questions])
    fed = torch.tensor([question.prompt for question in questions])
    said = []
    done = torch.zeros(len(questions), dtype=torch.bool)
    for _ in range(longest):
        fed = model(fed, cache=cache, logits_to_keep=1).logits[:, -1].argmax(-1, keepdim=True)
        said.append(fed)
        done |= fed[:, 0] == ends
        if bool(done.all()):
            break
    return [
        _until(end, row)
        for end, row in zip(ends.tolist(), torch.cat(said, 1).tolist(), strict=True)
    ]


def _longest(question: Question) -> int:
    """Tokens of the longest answer that is right or was."""
    stale = max((len(tokens) for part in question.parts for tokens in part.stale), default=0)
    return max(len(question.answer), stale + 1)


def _until(end: int, tokens: list[int]) -> tuple[int, ...]:
    """The tokens up to and including the first ``end``."""
    stop = tokens.index(end) + 1 if end in tokens else len(tokens)
    return tuple(tokens[:stop])


def _right_aligned(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Rows padded on the left to one length, and the mask of what is no padding."""
    length = max(len(row) for row in rows)
    tokens = torch.zeros(len(rows), length, dtype=torch.long)
    mask = torch.zeros(len(rows), length, dtype=torch.long)
    for number, row in enumerate(rows):
        tokens[number, length - len(row) :] = torch.tensor(row)
        mask[number, length - len(row) :] = 1
    return tokens, mask

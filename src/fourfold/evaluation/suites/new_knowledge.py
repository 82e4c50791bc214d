"""New knowledge: much to read first, the question last."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from statistics import fmean
from typing import Literal

from pydantic import Field
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from fourfold.data.words import Words
from fourfold.evaluation.suites.questions import Asked, contains, plain, read_questions, within
from fourfold.evaluation.suites.reading import Reading
from fourfold.evaluation.suites.suite import Row, Suite, asking, shares, text_tokens


@dataclass(frozen=True)
class Prompt:
    """What is read, what is asked behind it, and the answers that count, the first said in full."""

    read: list[int]
    question: list[int]
    answers: tuple[str, ...]


class NewKnowledgeSuite(Suite):
    """Documents, one of which answers the question at the end; or, as the easy control, text with
    numbers hidden in it. At the length of training and at multiples of it, with the same questions.

    What is said counts as right if an answer is in it. Where hardly anything is, the loss on the
    right answer, in nats a token, still shows whether what was read is of use: ``answer_nats``
    against ``unread_nats``, those of the same answer to the question alone.

    Source: seed 003, section 3.3, after the multi-document questions and the needles of RULER
    (arXiv 2404.06654), in other words: figures compare with each other, not with RULER's.

    Attributes:
        data: questions, see ``read_questions``; for needles, files of the text that hides them.
        kind: "documents" or "needles".
        length: tokens that the model was trained on at once.
        times: multiples of ``length`` that are read.
        needles: numbers that are hidden, of which one is asked for.
        answer_tokens: that are said at most.
    """

    name = "new-knowledge"

    kind: Literal["documents", "needles"] = "documents"
    length: int = Field(default=512, ge=1)
    times: tuple[int, ...] = Field(default=(1, 2, 4, 8), min_length=1)
    needles: int = Field(default=4, ge=1)
    answer_tokens: int = Field(default=24, ge=1)

    def run(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Iterator[Row]:
        words = Words(tokenizer)
        draw = self._documents(words) if self.kind == "documents" else self._hidden(words)
        for times in self.times:
            prompts = draw(times * self.length)
            with asking(model, self.disable):
                found = [self._ask(model, words, prompt) for prompt in prompts]
            yield {
                "kind": self.kind,
                "times": times,
                "tokens": fmean(len(prompt.read) + len(prompt.question) for prompt in prompts),
                "disabled": list(self.disable),
                **shares(*([right] for right, _, _ in found)),
                "answer_nats": fmean(nats for _, nats, _ in found),
                "unread_nats": fmean(nats for _, _, nats in found),
            }

    def _ask(
        self, model: PreTrainedModel, words: Words, prompt: Prompt
    ) -> tuple[bool, float, float]:
        """Whether the answer is right, and the nats a token of the right one, read and unread."""
        right = words.tokens(f" {prompt.answers[0]}")
        after = Reading.of(model, words.opening + prompt.read).further(prompt.question)
        alone = Reading.of(model, words.opening + prompt.question)
        said = words.text(after.say(self.answer_tokens, words.ends()))
        read, unread = (reading.nats([right])[0] / len(right) for reading in (after, alone))
        return contains(said, prompt.answers), read, unread

    def _documents(self, words: Words) -> Callable[[int], list[Prompt]]:
        """Puts questions, the same at every length, behind their passages among others'."""
        every = read_questions(self.data)
        passages = list(dict.fromkeys(asked.passage for asked in every))
        encoded = {passage: words.tokens(f"{passage}\n\n") for passage in passages}
        plainly = {passage: plain(passage) for passage in passages}
        questions = {asked: words.tokens(f"Question: {asked.question}\nAnswer:") for asked in every}

        def needed(asked: Asked) -> int:
            return len(encoded[asked.passage]) + len(questions[asked])

        shortest = min(self.times) * self.length
        fitting = [asked for asked in every if needed(asked) <= shortest]
        if not fitting:
            raise ValueError(
                f"length must leave room for a question and its passage; no question of "
                f"{self.data} fits into {shortest} tokens."
            )
        random = Random(f"new-knowledge documents {self.seed}")
        drawn = random.sample(fitting, min(self.examples, len(fitting)))

        def prompt(asked: Asked, length: int) -> Prompt:
            chosen, room = [asked.passage], length - needed(asked)
            for passage in random.sample(passages, len(passages)):
                fits = len(encoded[passage]) <= room and passage != asked.passage
                said = plainly[passage]
                if fits and not any(within(said, answer) for answer in asked.answers):
                    chosen.append(passage)
                    room -= len(encoded[passage])
            if room >= max(map(len, encoded.values())):  # what was left out holds the answer
                raise ValueError(
                    f"times must ask for no more tokens than there are to read; of {length}, "
                    f"{self.data} has only {length - room} for a question."
                )
            random.shuffle(chosen)
            read = [token for passage in chosen for token in encoded[passage]]
            return Prompt(read, questions[asked], asked.answers)

        return lambda length: [prompt(asked, length) for asked in drawn]

    def _hidden(self, words: Words) -> Callable[[int], list[Prompt]]:
        """Hides numbers in text and asks for one."""
        stream = text_tokens(self.data, words)
        random = Random(f"new-knowledge needles {self.seed}")

        def prompt(length: int) -> Prompt:
            boxes = random.sample(range(10, 100), self.needles)
            numbers = {box: random.randrange(1000, 10_000) for box in boxes}
            hidden = [
                words.tokens(f"\nThe number in box {box} is {number}.\n")
                for box, number in numbers.items()
            ]
            question = words.tokens(f"\nQuestion: What is the number in box {boxes[0]}?\nAnswer:")
            room = length - sum(map(len, hidden)) - len(question)
            if not 0 <= room <= len(stream):
                raise ValueError(
                    f"{length} tokens must hold {self.needles} needles and a question, and no more "
                    f"text than the {len(stream)} tokens of {self.data}."
                )
            start = random.randrange(len(stream) - room + 1)
            cuts = sorted(random.randint(0, room) for _ in hidden)
            random.shuffle(hidden)
            read, before = [], 0
            for cut, needle in zip(cuts, hidden, strict=True):
                read += [*stream[start + before : start + cut], *needle]
                before = cut
            read += stream[start + before : start + room]
            return Prompt(read, question, (str(numbers[boxes[0]]),))

        return lambda length: [prompt(length) for _ in range(self.examples)]

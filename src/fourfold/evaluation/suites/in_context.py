"""In-context learning: what texts are called, from examples alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Literal

from pydantic import Field
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from fourfold.data.words import Words
from fourfold.evaluation.suites.labelled import Labelled, read_labelled
from fourfold.evaluation.suites.reading import Reading
from fourfold.evaluation.suites.suite import Row, Suite, asking, shares

Names = Literal["real", "anonymous"]


class InContextSuite(Suite):
    """Shots of each class, then texts to be named, each behind the same shots; with the names of
    the classes, and with names that say nothing, class_00 and so on, given out at random.

    A text is named by the likeliest of all names, each with the end of its line. Every order draws
    shots, places and anonymous names anew, the same shots and places for both kinds of names; the
    texts to be named are the same throughout.

    Source: seed 003, section 3.4 (Banking77 and GoEmotions among others).

    Attributes:
        data: labelled texts, see ``read_labelled``, from which shots are drawn.
        tests: others, to be named; None takes those of ``data`` that are no shots.
        label_names: file of the names of labels that are numbers.
        shots: of each class.
        classes: how many of them, drawn at random; None for all.
        labels: names that are given.
        orders: of the shots.
    """

    name = "icl"

    tests: Path | None = None
    label_names: Path | None = None
    shots: tuple[int, ...] = Field(default=(1, 2, 4, 8), min_length=1)
    classes: int | None = Field(default=None, ge=2)
    labels: tuple[Names, ...] = Field(default=("real", "anonymous"), min_length=1)
    orders: int = Field(default=3, ge=1)

    def run(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Iterator[Row]:
        words = Words(tokenizer)
        shots, tests = self._drawn()
        for labels in self.labels:
            for count in self.shots:
                right, tokens = [], []
                for order in range(self.orders):
                    # Of which names are given, no shot and no place depends.
                    what = f"{count} {order} {self.seed}"
                    names = _names(Random(f"icl names {what}"), list(shots), labels)
                    read = words.tokens(_written(Random(f"icl {what}"), shots, names, count))
                    with asking(model, self.disable):
                        right.append(_named(model, words, read, tests, names))
                    tokens.append(len(read))
                yield {
                    "labels": labels,
                    "shots": count,
                    "disabled": list(self.disable),
                    "tokens": fmean(tokens),
                    "chance": 1 / len(shots),
                    **shares(*zip(*right, strict=True)),
                    "orders": [fmean(order) for order in right],
                }

    def _drawn(self) -> tuple[dict[str, list[Labelled]], list[Labelled]]:
        """Texts for shots by label, and those to be named."""
        random = Random(f"icl {self.seed}")
        every = read_labelled(self.data, self.label_names)
        known = sorted({one.label for one in every})
        if self.classes is not None and self.classes > len(known):
            raise ValueError(
                f"classes must be at most the {len(known)} of {self.data}; got {self.classes}."
            )
        chosen = sorted(random.sample(known, self.classes)) if self.classes else known
        random.shuffle(every)
        by_label: dict[str, list[Labelled]] = defaultdict(list)
        for one in every:
            by_label[one.label].append(one)
        if self.tests is None:
            # Half of each class is kept for tests, so that no shot is ever asked for.
            tests = [one for label in chosen for one in by_label[label][::2]]
            shots = {label: by_label[label][1::2] for label in chosen}
        else:
            others = read_labelled(self.tests, self.label_names)
            tests = [one for one in others if one.label in chosen]
            shots = {label: by_label[label] for label in chosen}
        pool = {one.text for texts in shots.values() for one in texts}
        tests = [one for one in tests if one.text not in pool]
        fewest = min(shots, key=lambda label: len(shots[label]))
        if len(shots[fewest]) < max(self.shots):
            raise ValueError(
                f"shots must be at most {len(shots[fewest])}, as many as there are for "
                f"{fewest!r}; got {max(self.shots)}. With fewer classes there may be more."
            )
        if not tests:
            raise ValueError(
                f"{self.tests or self.data} holds no text of these classes that is no shot."
            )
        return shots, random.sample(tests, min(self.examples, len(tests)))


def _names(random: Random, labels: Sequence[str], kind: Names) -> dict[str, str]:
    """What each label is called."""
    if kind == "real":
        return {label: label.replace("_", " ") for label in labels}
    numbers = random.sample(range(len(labels)), len(labels))
    return {label: f"class_{number:02d}" for label, number in zip(labels, numbers, strict=True)}


def _written(
    random: Random, shots: dict[str, list[Labelled]], names: dict[str, str], count: int
) -> str:
    """``count`` shots of each class, in any order."""
    chosen = [one for label in shots for one in random.sample(shots[label], count)]
    random.shuffle(chosen)
    return "".join(f"Text: {one.text}\nLabel: {names[one.label]}\n\n" for one in chosen)


def _named(
    model: PreTrainedModel,
    words: Words,
    read: list[int],
    tests: list[Labelled],
    names: dict[str, str],
) -> list[bool]:
    """Whether each text is named rightly."""
    shown = Reading.of(model, words.opening + read)
    # With its end: of two names, one may be the beginning of the other.
    written = {label: words.tokens(f" {name}\n") for label, name in names.items()}
    right = []
    for one in tests:
        nats = shown.further(words.tokens(f"Text: {one.text}\nLabel:")).nats(list(written.values()))
        each = dict(zip(written, nats, strict=True))
        right.append(each[one.label] < min(n for label, n in each.items() if label != one.label))
    return right

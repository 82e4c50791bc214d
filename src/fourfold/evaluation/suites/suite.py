"""What the three suites share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar

from pydantic import Field
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from fourfold.data.reading import BadRecord, read_texts
from fourfold.data.sources import find_files
from fourfold.data.words import Words
from fourfold.evaluation.mode import measuring
from fourfold.evaluation.scores import bootstrap
from fourfold.models import FourfoldForCausalLM
from fourfold.settings import Section

Row = dict[str, Any]


class Suite(Section):
    """An evaluation of any causal model, of this library or of transformers.

    Attributes:
        data: what it asks about; see the suite.
        examples: questions under each condition.
        seed: of all that is drawn.
        disable: memories that are silent, such as "long"; see ``FourfoldForCausalLM.disable``.
    """

    name: ClassVar[str]

    data: Path
    examples: int = Field(default=100, ge=1)
    seed: int = 0
    disable: tuple[str, ...] = ()

    @abstractmethod
    def run(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Iterator[Row]:
        """Ask; a row of results for each condition, as it becomes known.

        Raises:
            FileNotFoundError, OSError, ValueError: ``data`` or another field cannot be used, in a
                sentence.
        """


def text_tokens(path: Path, words: Words) -> list[int]:
    """Tokens of a file of text, or of all files of a folder, one behind the other.

    Raises:
        OSError: a file cannot be read.
        ValueError: a file is of another kind or damaged, or a record of it is no text.
    """
    tokens: list[int] = []
    for record in read_texts(find_files([path])):
        if isinstance(record, BadRecord):
            raise ValueError(record.fault)
        tokens += words.tokens(b"".join(record.pieces).decode(errors="replace"))
    return tokens


@contextmanager
def asking(model: PreTrainedModel, silent: Sequence[str]) -> Iterator[None]:
    """Evaluation mode, and nothing read from the memories that are ``silent``.

    Raises:
        ValueError: the model has no memory of that name.
    """
    with measuring(model):
        if isinstance(model, FourfoldForCausalLM):
            with model.without(*silent):
                yield
        elif silent:
            raise ValueError(
                f"disable must be empty for a {type(model).__name__}, whose memories have no "
                f"names; got {', '.join(silent)}."
            )
        else:
            yield


def shares(*groups: Sequence[bool]) -> Row:
    """Share of what is right with its 95 % interval, and of how many.

    Args:
        groups: answers that hang together, such as those to one question, and are drawn together.
    """
    values = [[float(one) for one in group] for group in groups]
    every = [one for group in values for one in group]
    return {
        "accuracy": fmean(every),
        "interval": list(bootstrap([values])),
        "of": len(every),
    }

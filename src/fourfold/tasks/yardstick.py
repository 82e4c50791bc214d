"""Tasks that others published, each with its own numbering of symbols."""

from __future__ import annotations

from abc import abstractmethod

from pydantic import Field

from fourfold.tasks.task import Task


class Yardstick(Task):
    """A task of a published suite, so that models can be held against what others report.

    Attributes:
        vocabulary_size: number of tokens.
    """

    vocabulary_size: int = Field(ge=1)

    @property
    @abstractmethod
    def families(self) -> dict[str, range]:
        """All tokens, by how they are printed: "k{}" where there are several, "_" if only one."""

    @property
    def vocab_size(self) -> int:
        return self.vocabulary_size

    def word(self, token: int) -> str:
        for pattern, tokens in self.families.items():
            if token in tokens:
                return pattern.format(token - tokens.start)
        raise ValueError(f"token must be from 0 to {self.vocab_size - 1}; got {token}.")

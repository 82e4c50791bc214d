"""The documents of a streamed data set, epoch after epoch."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from transformers import PreTrainedTokenizerBase

from fourfold.data.encoding import encoder_of
from fourfold.data.hub import HubDataset, HubTexts, usable_text
from fourfold.data.store_order import permutation
from fourfold.data.survey import Skipped, digest_of
from fourfold.data.tokenizers import end_of_text

BLOCK = 512
"""Records that are read and, if wanted, shuffled at once."""

BLOCK_BYTES = 1 << 23
"""A block of long texts ends when it holds as many."""

GROUP = 32
"""Texts that are encoded at once: the work of a block is spread over the windows that it fills."""


@dataclass(frozen=True)
class HeldDocument:
    """A document in memory; ``reference`` is what it holds."""

    numbers: npt.NDArray[np.int64]
    size: int

    @property
    def length(self) -> int:
        return len(self.numbers)

    def tokens(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        return self.numbers[start:stop]

    def reference(self) -> dict[str, Any]:
        return {"tokens": self.numbers.tolist(), "size": self.size}


class HubOrder:
    """The share of a streamed data set that falls to this process, once in each epoch.

    Files are dealt out to the processes if their number can be divided among them; otherwise each
    process reads all and keeps every ``world_size``-th record. In random order the files come in
    another order in each epoch, and documents change places within ``BLOCK`` records.

    Args:
        dataset: what is streamed.
        held_back: says of a text's hash whether it is for validation; such texts are passed over.
        seed: of the order.
        shuffle: whether it is random.
        rank, world_size: this process, and how many there are.

    Attributes:
        bad, empty: records of this process's share that were left out in the first epoch, so that
            each counts once; a position keeps them.
    """

    def __init__(
        self,
        dataset: HubDataset,
        tokenizer: PreTrainedTokenizerBase,
        *,
        held_back: Callable[[bytes], bool],
        seed: int,
        shuffle: bool,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        self.dataset = dataset
        self.held_back = held_back
        self.seed, self.shuffle, self.rank, self.world_size = seed, shuffle, rank, world_size
        self.bad, self.empty = Skipped(), Skipped()
        self._encoder, self._end = encoder_of(tokenizer), end_of_text(tokenizer)
        self._start(epoch=0, records=0, state=None)
        self._block: list[bytes] = []
        self._group: list[HeldDocument] = []  # documents from the ``_first`` of the block on
        self._first = self._taken = self._length = 0

    def next(self) -> HeldDocument:
        """The next document.

        Raises:
            OSError, ValueError: the data set cannot be read, or holds no text for this process.
        """
        while self._taken == len(self._block):
            self._advance()
        if not 0 <= self._taken - self._first < len(self._group):
            self._encode_group()
        self._taken += 1
        return self._group[self._taken - 1 - self._first]

    def recall(self, reference: Any) -> HeldDocument:
        numbers = np.asarray(reference["tokens"], dtype=np.int64)
        return HeldDocument(numbers, reference["size"])

    def state(self) -> dict[str, Any]:
        return {
            **self._identity(),
            "epoch": self._epoch,
            "records": self._records,
            "stream": self._begin,
            "taken": self._taken,
            "bad": asdict(self.bad),
            "empty": asdict(self.empty),
        }

    def restore(self, state: dict[str, Any]) -> None:
        ours = self._identity()
        if state["dataset"] != ours["dataset"]:
            raise ValueError(f"The position is one in another text than {self.dataset.entry.name}.")
        if state["world_size"] != self.world_size:
            raise ValueError(
                f"The position is one of {state['world_size']} processes, each with its share of "
                f"the data set; here are {self.world_size}."
            )
        for name in ("rank", "seed", "shuffle"):
            if state[name] != ours[name]:
                raise ValueError(
                    f"The position is one of {name} {state[name]}; here is {name} {ours[name]}."
                )
        self._start(state["epoch"], state["records"], state["stream"])
        self._read_block()
        # The state has counted what this block leaves out.
        self.bad, self.empty = Skipped.of(state["bad"]), Skipped.of(state["empty"])
        if state["taken"] > len(self._block):
            raise ValueError(f"The data set {self.dataset.entry.name} is shorter than it was.")
        self._taken = state["taken"]

    def _identity(self) -> dict[str, Any]:
        return {
            "dataset": self.dataset.identity,
            "seed": self.seed,
            "shuffle": self.shuffle,
            "rank": self.rank,
            "world_size": self.world_size,
        }

    def _start(self, epoch: int, records: int, state: dict[str, Any] | None) -> None:
        """Be in ``epoch`` behind ``records`` of its records, where the stream had ``state``."""
        self._epoch, self._records, self._begin = epoch, records, state
        self._fruitful = records > 0
        self._texts: HubTexts = self.dataset.texts(
            rank=self.rank, world_size=self.world_size, order=self._file_order(epoch), state=state
        )

    def _file_order(self, epoch: int) -> int:
        if not self.shuffle:
            return 0
        key = hashlib.sha256(f"{self.seed} {epoch}".encode()).digest()
        return 1 + int.from_bytes(key[:4], "big")

    def _advance(self) -> None:
        """Go on to the next block, in the next epoch if there is none in this one."""
        if self._length:
            self._records += self._length
            self._begin = self._texts.state()
        self._read_block()
        if not self._length:
            if not self._fruitful:
                raise ValueError(
                    f"The data set {self.dataset.entry.name} has no text for process {self.rank} "
                    f"of {self.world_size}."
                )
            self._start(self._epoch + 1, 0, None)

    def _read_block(self) -> None:
        """Read the records that follow; none at the end of the epoch."""
        texts, size, self._length = [], 0, 0
        bad, empty = (self.bad, self.empty) if self._epoch == 0 else (Skipped(), Skipped())
        share = f" for process {self.rank}" if self.world_size > 1 else ""
        while self._length < BLOCK and size < BLOCK_BYTES:
            try:
                record = next(self._texts)
            except StopIteration:
                break
            self._length += 1
            place = f"{self.dataset.entry.name}, record {self._records + self._length}{share},"
            text = usable_text(record, place, bad, empty)
            if text is not None and not self.held_back(digest_of(text)):
                size += len(text)
                texts.append(text)
        if self.shuffle:
            order = permutation(len(texts), self.seed, self._epoch, self._records)
            texts = [texts[number] for number in order]
        self._block, self._group, self._taken = texts, [], 0
        self._fruitful |= bool(texts)

    def _encode_group(self) -> None:
        """Encode the texts that follow."""
        self._first = self._taken
        texts = self._block[self._first : self._first + GROUP]
        self._group = [
            HeldDocument(np.append(tokens, self._end).astype(np.int64), len(text))
            for text, tokens in zip(texts, self._encoder.texts(texts), strict=True)
        ]

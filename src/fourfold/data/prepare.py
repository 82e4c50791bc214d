"""From what a recipe says about text to documents as tokens, for training and for validation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerBase

from fourfold.data.build import write_texts
from fourfold.data.cache import data_folder, key_of, signature, stores
from fourfold.data.encoding import encoder_of
from fourfold.data.entry import DataEntry
from fourfold.data.hub import HubDataset, usable_text
from fourfold.data.hub_order import HubOrder
from fourfold.data.order import Order
from fourfold.data.report import Report
from fourfold.data.sources import find_files, printable
from fourfold.data.split import Side, Split, all_to, hold_back, leave_out, part_of, parts
from fourfold.data.store import TokenStore
from fourfold.data.store_order import StoreOrder
from fourfold.data.store_writer import StoreWriter
from fourfold.data.survey import Progress, Skipped, Survey, digest_of, take_survey
from fourfold.data.tokenizers import end_of_text, vocabulary_size
from fourfold.sessions.fingerprint import tokenizer_of

VERSION = 2
"""Of what becomes of a text; a change makes all of it anew."""

BUCKETS = 64
"""One text in so many of a data set is held back, whichever are read for validation."""


@dataclass(frozen=True)
class Prepared:
    """Text that can be trained on.

    Attributes:
        train: documents without end.
        validation: documents, none of whose texts is in ``train``.
        report: what was read and left out.
        fingerprint: SHA-256 of both.
    """

    train: Order
    validation: TokenStore
    report: Report
    fingerprint: str


def prepare(
    entry: DataEntry,
    tokenizer: PreTrainedTokenizerBase,
    *,
    seed: int,
    shuffle: bool,
    rank: int = 0,
    world_size: int = 1,
    on_progress: Progress | None = None,
) -> Prepared:
    """Turn text into tokens, or find that it was done before.

    Files become token stores in ``entry.cache``, under a name that depends on all that they depend
    on; one process builds and the others wait. Every process gets all documents in one order. Of a
    data set only the validation is kept; a process gets its share of the rest as it is streamed.

    Validation and training share no text: which side a document is on depends on a hash of its text
    alone, white space at the ends aside. Documents that repeat one on their side are kept.

    Args:
        seed, shuffle: of the order of training.
        rank, world_size: this process, and how many there are.

    Raises:
        OSError: text cannot be read, or tokens not be written.
        ValueError: text is damaged, missing or too short, or the tokenizer has no end of text.
    """
    work = _Preparation(entry, tokenizer, on_progress)
    if entry.dataset is None:
        store, validation = work.one_set() if entry.validation is None else work.two_sets()
        return Prepared(
            train=StoreOrder(store, seed=seed, shuffle=shuffle),
            validation=validation,
            report=Report.of(store, validation),
            fingerprint=key_of([store.fingerprint, validation.fingerprint]),
        )
    dataset = HubDataset(entry.dataset)
    validation = work.bucket(dataset) if entry.validation is None else work.validation_set()
    order = HubOrder(
        dataset,
        tokenizer,
        held_back=in_bucket if entry.validation is None else _among(validation),
        seed=seed,
        shuffle=shuffle,
        rank=rank,
        world_size=world_size,
    )
    return Prepared(
        train=order,
        validation=validation,
        report=Report.of(None, validation),
        fingerprint=key_of([dataset.identity, validation.fingerprint]),
    )


def prepare_whole(
    paths: Sequence[Path],
    tokenizer: PreTrainedTokenizerBase,
    *,
    text: str = "text",
    cache: Path | None = None,
    on_progress: Progress | None = None,
) -> TokenStore:
    """All text of ``paths`` as tokens, nothing held back.

    Args:
        text, cache: as in ``DataEntry``.

    Raises:
        OSError, ValueError: as ``prepare``.
    """
    entry = DataEntry(train=tuple(paths), validation=tuple(paths), text=text, cache=cache)
    return _Preparation(entry, tokenizer, on_progress).validation_set()


def in_bucket(digest: bytes) -> bool:
    """Whether a text with this hash is one of those that are held back of a data set."""
    return digest[0] % BUCKETS == 0


def _among(store: TokenStore) -> Callable[[bytes], bool]:
    return {digest.tobytes() for digest in store.digests}.__contains__


class _Preparation:
    """Finds or builds the stores that an entry asks for."""

    def __init__(
        self, entry: DataEntry, tokenizer: PreTrainedTokenizerBase, on_progress: Progress | None
    ) -> None:
        self._entry, self._tokenizer, self._on_progress = entry, tokenizer, on_progress
        self._end = end_of_text(tokenizer)
        self._fingerprint = tokenizer_of(tokenizer)
        self._root = data_folder(entry.cache)

    def one_set(self) -> tuple[TokenStore, TokenStore]:
        """Training, and validation that is held back from it."""
        files, share = _Files(self._entry.train), self._entry.validation_share
        folder = self._folder(["share", share, files.signature])

        def build() -> None:
            survey = self._survey(files)
            split = hold_back(survey, share)
            abouts = {
                Side.VALIDATION: files.about(),
                Side.TRAIN: files.about(survey, share=share, repeated=_repeated(survey, split)),
            }
            self._write(folder, abouts, files, survey, split)

        validation, train = stores(folder, ("validation", "train"), build)
        return train, validation

    def two_sets(self) -> tuple[TokenStore, TokenStore]:
        """Training without what ``validation_set`` holds, and that."""
        validation = self.validation_set()
        files = _Files(self._entry.train)
        folder = self._folder(["beside", validation.fingerprint, files.signature])

        def build() -> None:
            survey = self._survey(files)
            split = leave_out(survey, validation.digests)
            left_out = int(survey.usable.sum() - (split.sides == Side.TRAIN).sum())
            if left_out == survey.usable.sum():
                raise ValueError(f"All texts of {files.names()} are in validation too.")
            about = files.about(survey, repeated=_repeated(survey, split), in_validation=left_out)
            self._write(folder, {Side.TRAIN: about}, files, survey, split)

        (train,) = stores(folder, ("train",), build)
        return train, validation

    def validation_set(self) -> TokenStore:
        """All of the files that are named for validation."""
        files = _Files(self._entry.validation)
        folder = self._folder(["all", files.signature])

        def build() -> None:
            survey = self._survey(files)
            split = all_to(Side.VALIDATION, survey)
            self._write(folder, {Side.VALIDATION: files.about(survey)}, files, survey, split)

        return stores(folder, ("validation",), build)[0]

    def bucket(self, dataset: HubDataset) -> TokenStore:
        """The first documents of a data set that are held back."""
        wanted = self._entry.validation_documents
        folder = self._folder(["bucket", BUCKETS, wanted, dataset.identity])

        def build() -> None:
            bad, empty = Skipped(), Skipped()
            texts = islice(_bucket_texts(dataset, bad, empty), wanted)
            with self._writer(folder / "validation") as writer:
                parts = (part_of(Side.VALIDATION, len(text), (text,)) for text in texts)
                write_texts(
                    parts,
                    {Side.VALIDATION: writer},
                    encoder_of(self._tokenizer),
                    on_progress=self._on_progress,
                )
                if not len(writer):
                    raise ValueError(
                        f"The data set {dataset.entry.name} is so small that none of its texts is "
                        f"held back, which is one in {BUCKETS}; give validation files."
                    )
                writer.commit(_about([dataset.entry.name], bad, empty))

        return stores(folder, ("validation",), build)[0]

    def _folder(self, what: list[Any]) -> Path:
        return self._root / key_of([VERSION, self._fingerprint, self._entry.text, *what])

    def _survey(self, files: _Files) -> Survey:
        return take_survey(files.files, self._entry.text, self._on_progress)

    def _writer(self, folder: Path) -> StoreWriter:
        return StoreWriter(
            folder,
            tokenizer=self._fingerprint,
            vocabulary=vocabulary_size(self._tokenizer),
            end_of_text=self._end,
        )

    def _write(
        self,
        folder: Path,
        abouts: dict[Side, dict[str, Any]],
        files: _Files,
        survey: Survey,
        split: Split,
    ) -> None:
        """Make a store for each side in ``abouts`` and say that about it."""
        with ExitStack() as stack:
            writers = {
                side: stack.enter_context(self._writer(folder / side.name.lower()))
                for side in abouts
            }
            write_texts(
                parts(files.files, self._entry.text, survey, split),
                writers,
                encoder_of(self._tokenizer),
                total=int(survey.sizes[split.sides != Side.NOWHERE].sum()),
                on_progress=self._on_progress,
            )
            files.check()
            for side, about in abouts.items():
                writers[side].commit(about)


class _Files:
    """Files of text, and whether they are still what they were."""

    def __init__(self, paths: Sequence[Path] | None) -> None:
        self._paths = paths or ()
        self.files = find_files(self._paths)
        self.signature = signature(self.files)

    def names(self) -> str:
        """What the user called them."""
        return ", ".join(printable(str(path)) for path in self._paths)

    def about(self, survey: Survey | None = None, **more: Any) -> dict[str, Any]:
        """For a store; what was left out is told once, by the store that names ``survey``."""
        names = [printable(str(path)) for path in self._paths]
        if survey is None:
            return _about(names, Skipped(), Skipped(), **more)
        return _about(names, survey.bad, survey.empty, **more)

    def check(self) -> None:
        """See that no file has changed.

        Raises:
            OSError, ValueError: one has, or is gone.
        """
        if signature(self.files) != self.signature:
            raise ValueError(f"{self.names()} changed while it was read; start again.")


def _about(
    sources: list[str],
    bad: Skipped,
    empty: Skipped,
    *,
    share: float | None = None,
    repeated: int = 0,
    in_validation: int = 0,
) -> dict[str, Any]:
    return {
        "sources": sources,
        "bad": asdict(bad),
        "empty": asdict(empty),
        "share": share,
        "repeated": repeated,
        "in_validation": in_validation,
    }


def _repeated(survey: Survey, split: Split) -> int:
    """Documents of training whose text came before."""
    digests = survey.digests[np.isin(split.sides, (Side.TRAIN, Side.CUT, Side.SHORTENED))]
    return len(digests) - len(np.unique(digests, axis=0))


def _bucket_texts(dataset: HubDataset, bad: Skipped, empty: Skipped) -> Iterator[bytes]:
    """The texts of a data set that are held back, in its order."""
    for number, record in enumerate(dataset.texts(rank=0, world_size=1), start=1):
        text = usable_text(record, f"{dataset.entry.name}, record {number},", bad, empty)
        if text is not None and in_bucket(digest_of(text)):
            yield text

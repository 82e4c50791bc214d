"""What became of the text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fourfold.data.store import TokenStore
from fourfold.data.survey import Skipped

LARGEST_CHARACTER = 4
"""Bytes of UTF-8."""


@dataclass(frozen=True)
class Report:
    """What was read and what was left out.

    Attributes:
        train: the store of training; None for a data set that is streamed.
        validation: that of validation.
        bad, empty: records that were left out.
        first_bad, first_empty: the first ten of each, in sentences with file and line.
        repeated: documents of training whose text came before; they are kept.
        in_validation: documents that were left out of training, for validation holds their text.
        share: of all bytes that validation was to hold; None if its files were named.
    """

    train: TokenStore | None
    validation: TokenStore
    bad: int = 0
    empty: int = 0
    first_bad: list[str] = field(default_factory=list)
    first_empty: list[str] = field(default_factory=list)
    repeated: int = 0
    in_validation: int = 0
    share: float | None = None

    @classmethod
    def of(cls, train: TokenStore | None, validation: TokenStore) -> Report:
        """From what the builders of the stores said about them."""
        stores = [validation] if train is None else [train, validation]
        bad, empty = ([store.about[kind] for store in stores] for kind in ("bad", "empty"))
        return cls(
            train=train,
            validation=validation,
            bad=_sum(bad),
            empty=_sum(empty),
            first_bad=_first(bad),
            first_empty=_first(empty),
            repeated=0 if train is None else train.about["repeated"],
            in_validation=0 if train is None else train.about["in_validation"],
            share=None if train is None else train.about["share"],
        )

    def lines(self) -> list[str]:
        """Sentences for a person."""
        lines = [] if self.train is None else [size_of("Training", self.train)]
        lines.append(size_of("Validation", self.validation))
        if self.train is not None and self.share is not None:
            held = self.validation.total_bytes
            lines += below_share(held, self.train.total_bytes + held, self.share)
        lines += self.left_out()
        if self.in_validation:
            lines.append(
                f"Left out of training: {_counted(self.in_validation, 'document')} whose text is "
                "in validation."
            )
        if self.repeated:
            lines.append(
                f"Kept: {_counted(self.repeated, 'document')} of training with the text of an "
                "earlier one."
            )
        return lines

    def left_out(self) -> list[str]:
        """Those about records that were left out."""
        return left_out(Skipped(self.bad, self.first_bad), Skipped(self.empty, self.first_empty))


def size_of(name: str, store: TokenStore) -> str:
    """How much ``store`` holds, which is called ``name``."""
    return (
        f"{name}: {_counted(len(store), 'document')}, {_counted(store.total_bytes, 'byte')}, "
        f"{_counted(store.total_tokens, 'token')}."
    )


def below_share(held: int, total: int, share: float) -> list[str]:
    """A sentence if ``held`` bytes are less than ``share`` of ``total``, by more than a
    character."""
    if held + LARGEST_CHARACTER >= share * total:
        return []
    return [
        f"Validation holds {100 * held / total:.3g} % of the bytes; {100 * share:.3g} % was asked "
        "for."
    ]


def left_out(bad: Skipped, empty: Skipped) -> list[str]:
    """How many records were bad and how many texts empty, with the first; nothing if none were."""
    return [*_skipped("bad record", bad), *_skipped("empty text", empty)]


def _skipped(noun: str, skipped: Skipped) -> list[str]:
    if not skipped.count:
        return []
    rest = skipped.count - len(skipped.first)
    return [
        f"Left out: {_counted(skipped.count, noun)}.",
        *(f"  {sentence}" for sentence in skipped.first),
        *([f"  and {rest:,} more"] if rest and skipped.first else []),
    ]


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _sum(parts: list[dict[str, Any]]) -> int:
    return sum(part["count"] for part in parts)


def _first(parts: list[dict[str, Any]]) -> list[str]:
    return [sentence for part in parts for sentence in part["first"]]

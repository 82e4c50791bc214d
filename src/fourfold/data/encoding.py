"""Texts to tokens, many at once or one that is too long to hold, with nothing added."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from tokenizers import Encoding, Tokenizer
from transformers import PreTrainedTokenizerBase

from fourfold.models.tokenizer import ByteTokenizer

Tokens = npt.NDArray[np.unsignedinteger[Any]]

LONG = 1 << 20
"""Bytes of a text from which on it is encoded in windows."""

WINDOW = 1 << 14
"""Characters of a window; in longer ones it takes more time to tell where a token stands."""

OVERLAP = 1 << 10
"""Characters that two neighbouring windows share."""

WINDOWS = 64
"""Windows that the threads of the tokenizer encode side by side."""


class Encoder(Protocol):
    """Turns UTF-8 into tokens. A text that spells a special token is text, not that token."""

    def texts(self, texts: Sequence[bytes]) -> list[Tokens]:
        """The tokens of each text, none left out however long it is."""

    def pieces(self, pieces: Iterable[bytes]) -> Iterator[Tokens]:
        """The tokens of one text that comes in pieces, as they become known."""


def encoder_of(tokenizer: PreTrainedTokenizerBase) -> Encoder:
    """The quickest way that ``tokenizer`` allows."""
    if isinstance(tokenizer, ByteTokenizer):
        return ByteEncoder()
    if getattr(tokenizer, "backend_tokenizer", None) is not None:
        return FastEncoder(tokenizer)
    return SlowEncoder(tokenizer)


class ByteEncoder:
    """Bytes are tokens already."""

    def texts(self, texts: Sequence[bytes]) -> list[Tokens]:
        return [np.frombuffer(text, dtype=np.uint8) for text in texts]

    def pieces(self, pieces: Iterable[bytes]) -> Iterator[Tokens]:
        for piece in pieces:
            yield np.frombuffer(piece, dtype=np.uint8)


class SlowEncoder:
    """A tokenizer in Python; a text that comes in pieces is put together."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer

    def texts(self, texts: Sequence[bytes]) -> list[Tokens]:
        if not texts:
            return []
        encoded = self._tokenizer(
            [text.decode() for text in texts],
            add_special_tokens=False,
            split_special_tokens=True,
            return_attention_mask=False,
            verbose=False,  # no warning that a text is longer than some model's window
        )
        return [np.asarray(numbers, dtype=np.uint32) for numbers in encoded["input_ids"]]

    def pieces(self, pieces: Iterable[bytes]) -> Iterator[Tokens]:
        yield from self.texts([b"".join(pieces)])


@dataclass(frozen=True)
class _Window:
    """A part of a long text; the window before it ends with the first ``overlap`` characters."""

    text: str
    overlap: int


class FastEncoder:
    """A tokenizer in Rust, whose threads share the texts.

    A long text is read in windows that overlap, and goes over from one to the next at a token on
    which both agree, so that its tokens are those of the whole text, without the memory for it.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        # One of our own, with the rules that make tokens and none of those that add or cut off.
        rules = json.loads(tokenizer.backend_tokenizer.to_str())
        rules |= {"truncation": None, "padding": None, "post_processor": None}
        self._backend = Tokenizer.from_str(json.dumps(rules))
        self._backend.encode_special_tokens = True

    def texts(self, texts: Sequence[bytes]) -> list[Tokens]:
        short = [text for text in texts if len(text) < LONG]
        encoded = iter(
            self._backend.encode_batch_fast(
                [text.decode() for text in short], add_special_tokens=False
            )
        )
        return [
            np.asarray(next(encoded).ids, dtype=np.uint32)
            if len(text) < LONG
            else np.concatenate([*self.pieces((text,))])
            for text in texts
        ]

    def pieces(self, pieces: Iterable[bytes]) -> Iterator[Tokens]:
        windows = _windows(_parts(pieces))
        before: _Encoded | None = None
        begin = 0
        while group := list(islice(windows, WINDOWS)):
            encodings = self._backend.encode_batch(
                [window.text for window in group], add_special_tokens=False
            )
            for window, encoding in zip(group, encodings, strict=True):
                after = _Encoded(window.text, encoding)
                if before is None:
                    before = after
                    continue
                seam = _seam(before, after, window.overlap)
                if seam is None:
                    # Nothing to agree on, as in a million times the same letter: start afresh
                    # where a token of the window before starts.
                    stop, entry = before.start_before(len(before.text) - window.overlap // 2), 0
                    text = before.text[before.place(stop) :] + window.text[window.overlap :]
                    encoding = self._backend.encode(text, add_special_tokens=False)
                    after = _Encoded(text, encoding)
                else:
                    stop, entry = seam
                yield before.numbers[begin:stop]
                before, begin = after, entry
        if before is not None:
            yield before.numbers[begin:]


class _Encoded:
    """A text, its tokens, and where they stand in it."""

    def __init__(self, text: str, encoding: Encoding) -> None:
        self.text, self._encoding = text, encoding
        self.numbers = np.asarray(encoding.ids, dtype=np.uint32)

    def place(self, index: int) -> int:
        """The character that a token starts with, or in."""
        return self._span(index)[0]

    def start_before(self, character: int) -> int:
        """The last token that starts at or before ``character``, and with a character."""
        index = len(self.numbers) - 1
        while index and (
            self.place(index) > character or self._span(index - 1)[1] > self.place(index)
        ):
            index -= 1
        return index

    def _span(self, index: int) -> tuple[int, int]:
        span = self._encoding.token_to_chars(index)
        assert span is not None, "every token stands for text"
        return span


def _seam(before: _Encoded, after: _Encoded, overlap: int) -> tuple[int, int] | None:
    """Where to leave ``before`` and to enter ``after``, which share ``overlap`` characters.

    Returns:
        the numbers of a token in both that is the same, at the same place, and follows the same
        one; the nearest to the middle of the overlap, where both know what surrounds it.
    """
    entries: dict[int, int] = {}
    for index in range(len(after.numbers)):
        if after.place(index) >= overlap:
            break
        entries.setdefault(after.place(index), index)
    shift = len(before.text) - overlap
    first = before.start_before(shift + overlap // 2)
    for index in range(max(first, 1), len(before.numbers)):
        entry = entries.get(before.place(index) - shift, 0)
        if not entry or before.place(index - 1) - shift != after.place(entry - 1):
            continue
        pairs = before.numbers[index - 1 : index + 1], after.numbers[entry - 1 : entry + 1]
        if np.array_equal(*pairs):
            return index, entry
    return None


def _parts(pieces: Iterable[bytes]) -> Iterator[str]:
    """The text in parts of WINDOW characters, the last one shorter."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    held = ""
    for piece in pieces:
        for start in range(0, len(piece), WINDOW):
            held += decoder.decode(piece[start : start + WINDOW])
            if len(held) >= WINDOW:
                yield held[:WINDOW]
                held = held[WINDOW:]
    held += decoder.decode(b"", final=True)
    if held:
        yield held


def _windows(parts: Iterator[str]) -> Iterator[_Window]:
    overlap = ""
    for part in parts:
        window = _Window(overlap + part, len(overlap))
        yield window
        overlap = window.text[-OVERLAP:]

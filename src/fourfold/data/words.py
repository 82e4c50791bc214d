"""Text to tokens and back, with nothing added."""

from __future__ import annotations

from collections.abc import Sequence

from transformers import PreTrainedTokenizerBase

from fourfold.data.encoding import encoder_of


class Words:
    """A tokenizer, without special tokens around what it encodes.

    Attributes:
        opening: tokens that it puts before a text by itself, which a model may need to see there.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        self._encoder = encoder_of(tokenizer)
        alone, bare = (
            list(tokenizer("a", add_special_tokens=special).input_ids) for special in (True, False)
        )
        start = next((n for n in range(len(alone)) if alone[n : n + len(bare)] == bare), 0)
        self.opening: list[int] = alone[:start]

    def tokens(self, text: str) -> list[int]:
        """Tokens of a text."""
        (found,) = self._encoder.texts([text.encode(errors="replace")])
        return [int(token) for token in found]

    def text(self, tokens: Sequence[int]) -> str:
        """The text of tokens, without those that stand for no text."""
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=True))

    def ends(self) -> set[int]:
        """Tokens that end an answer: the end of text, and that of a line if it is one token."""
        line = self.tokens("\n")
        found = {self._tokenizer.eos_token_id, line[0] if len(line) == 1 else None}
        return {token for token in found if token is not None}

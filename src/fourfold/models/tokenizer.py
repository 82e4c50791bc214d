"""Text as raw bytes: a tokenizer that needs no vocabulary file and knows every text."""

from __future__ import annotations

from typing import Any

from transformers import AddedToken, PreTrainedTokenizer

BYTES = 256
PAD, BOS, EOS = range(BYTES, BYTES + 3)
"""Tokens 0 to 255 are the bytes; these follow."""


class ByteTokenizer(PreTrainedTokenizer):
    """UTF-8 bytes 0 to 255 as tokens 0 to 255, then <|pad|>, <|bos|> and <|eos|>.

    Nothing is added to a text, and a text that spells a special token is read as the bytes it
    consists of, so every text comes back as it was.
    """

    model_input_names = ["input_ids", "attention_mask"]  # noqa: RUF012

    def __init__(
        self,
        pad_token: str = "<|pad|>",
        bos_token: str = "<|bos|>",
        eos_token: str = "<|eos|>",
        padding_side: str = "left",
        split_special_tokens: bool = True,
        **kwargs: Any,
    ) -> None:
        # Listed here so that their numbers do not hang on the order of transformers' attributes.
        self._added_tokens_decoder = {
            number: AddedToken(str(token), special=True, normalized=False)
            for number, token in ((PAD, pad_token), (BOS, bos_token), (EOS, eos_token))
        }
        super().__init__(
            pad_token=pad_token,
            bos_token=bos_token,
            eos_token=eos_token,
            padding_side=padding_side,
            split_special_tokens=split_special_tokens,
            **kwargs,
        )

    @property
    def vocab_size(self) -> int:
        return BYTES

    def get_vocab(self) -> dict[str, int]:
        return {chr(byte): byte for byte in range(BYTES)} | self.added_tokens_encoder

    def build_inputs_with_special_tokens(
        self, token_ids_0: list[int], token_ids_1: list[int] | None = None
    ) -> list[int]:
        return token_ids_0 + (token_ids_1 or [])

    def get_special_tokens_mask(
        self,
        token_ids_0: list[int],
        token_ids_1: list[int] | None = None,
        already_has_special_tokens: bool = False,
    ) -> list[int]:
        if already_has_special_tokens:
            return super().get_special_tokens_mask(token_ids_0, token_ids_1, True)
        return [0] * (len(token_ids_0) + len(token_ids_1 or []))

    def create_token_type_ids_from_sequences(
        self, token_ids_0: list[int], token_ids_1: list[int] | None = None
    ) -> list[int]:
        return [0] * (len(token_ids_0) + len(token_ids_1 or []))

    def _tokenize(self, text: str, **kwargs: Any) -> list[str]:
        return [chr(byte) for byte in text.encode("utf-8", errors="surrogatepass")]

    def _convert_token_to_id(self, token: str) -> int | None:
        return ord(token) if len(token) == 1 and ord(token) < BYTES else None

    def _convert_id_to_token(self, index: int) -> str:
        if not 0 <= index < BYTES:
            raise ValueError(f"A token number must be below {len(self)}; got {index}.")
        return chr(index)

    def convert_tokens_to_string(self, tokens: list[str]) -> str:
        """Bytes to text; bytes that are no UTF-8 become U+FFFD."""
        encoded = b"".join(
            bytes([ord(token)]) if len(token) == 1 else token.encode() for token in tokens
        )
        return encoded.decode("utf-8", errors="replace")

    def save_vocabulary(
        self, save_directory: str, filename_prefix: str | None = None
    ) -> tuple[str, ...]:
        return ()

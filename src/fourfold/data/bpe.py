"""Training a tokenizer on the user's text."""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

SPECIAL_TOKENS = {"pad_token": "<|pad|>", "bos_token": "<|bos|>", "eos_token": "<|eos|>"}
"""As ``ByteTokenizer`` has them."""

SMALLEST = 256 + len(SPECIAL_TOKENS)
"""Every byte is an entry, so that every text has tokens."""


def train_bpe(texts: Iterable[str], vocab_size: int) -> PreTrainedTokenizerFast:
    """A byte-level BPE of ``texts``: nothing is lost, and each digit is a token.

    The same texts give the same tokenizer, entry by entry. Like ``ByteTokenizer`` it adds nothing
    to a text, and reads one that spells a special token as text.

    Args:
        texts: long ones may come in pieces; a word that is cut counts as two.
        vocab_size: entries, the 256 bytes and three special tokens included; fewer come out if the
            texts have no more pairs to join.

    Raises:
        ValueError: vocab_size leaves no room for the bytes.
    """
    check_size(vocab_size)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[*SPECIAL_TOKENS.values()],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        padding_side="left",
        clean_up_tokenization_spaces=False,
        split_special_tokens=True,
        **SPECIAL_TOKENS,
    )


def check_size(vocab_size: int) -> None:
    """Refuse a vocabulary without room for all bytes.

    Raises:
        ValueError: it is too small.
    """
    if vocab_size < SMALLEST:
        raise ValueError(
            f"vocab_size must be at least {SMALLEST}, for 256 bytes and {len(SPECIAL_TOKENS)} "
            f"special tokens; got {vocab_size}."
        )

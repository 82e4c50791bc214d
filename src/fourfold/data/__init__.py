"""Text for training and evaluation."""

from fourfold.data.bpe import train_bpe
from fourfold.data.corpus import Corpus, load_corpus
from fourfold.data.store import TokenStore
from fourfold.data.tokenizers import load_tokenizer

__all__ = [
    "Corpus",
    "TokenStore",
    "load_corpus",
    "load_tokenizer",
    "train_bpe",
]

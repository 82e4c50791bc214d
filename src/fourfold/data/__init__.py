"""Text for training and evaluation."""

from fourfold.data.bpe import train_bpe
from fourfold.data.corpus import Corpus, load_corpus
from fourfold.data.documents import Document, read_documents, standard_library
from fourfold.data.store import TokenStore
from fourfold.data.tokenizers import load_tokenizer

__all__ = [
    "Corpus",
    "Document",
    "TokenStore",
    "load_corpus",
    "load_tokenizer",
    "read_documents",
    "standard_library",
    "train_bpe",
]

"""Text for training and evaluation."""

from fourfold.data.corpus import Corpus, load_corpus
from fourfold.data.documents import Document, read_documents, standard_library

__all__ = ["Corpus", "Document", "load_corpus", "read_documents", "standard_library"]

"""Where text comes from, as a part of a recipe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field, field_validator, model_validator

from fourfold.settings import Section


class DatasetEntry(Section):
    """A data set of the Hugging Face hub, or of a folder in its form, read as a stream.

    Attributes:
        name: such as HuggingFaceFW/fineweb.
        config: its configuration, such as sample-10BT.
        split: which of its splits.
        text: the column that holds the text; that of ``DataEntry`` if it is not given.
    """

    name: str
    config: str | None = None
    split: str = "train"
    text: str = "text"


class DataEntry(Section):
    """The text; give ``train`` or ``dataset``.

    Attributes:
        train: files, or folders of files: .txt, .md, .jsonl, .parquet, also compressed.
        dataset: a data set that is streamed.
        validation: files or folders of other text; None holds some documents back.
        validation_share: of the bytes of ``train`` that are held back.
        validation_documents: of ``dataset`` that are held back.
        text: the field of .jsonl and column of .parquet, or of ``dataset``, that hold the text.
        cache: folder for tokens; None for one in the user's cache.
        prefetch: windows that a thread reads ahead of the one that is trained on; 0 for none.
    """

    train: tuple[Path, ...] | None = None
    dataset: DatasetEntry | None = None
    validation: tuple[Path, ...] | None = None
    validation_share: float = Field(default=0.02, gt=0, lt=1)
    validation_documents: int = Field(default=500, ge=1)
    text: str = "text"
    cache: Path | None = None
    prefetch: int = Field(default=4, ge=0)

    @field_validator("train", "validation", mode="before")
    @classmethod
    def _one_or_many(cls, paths: Any) -> Any:
        return (paths,) if isinstance(paths, (str, Path)) else paths

    @model_validator(mode="before")
    @classmethod
    def _one_text(cls, content: Any) -> Any:
        """``text`` holds for the data set too, unless that names a column of its own."""
        if not isinstance(content, dict) or "text" not in content:
            return content
        dataset = content.get("dataset")
        if isinstance(dataset, DatasetEntry):
            dataset = dataset.model_dump(exclude_unset=True)
        if not isinstance(dataset, dict):
            return content
        return content | {"dataset": {"text": content["text"]} | dataset}

    @model_validator(mode="after")
    def _one_source(self) -> DataEntry:
        if (not self.train) == (self.dataset is None):
            raise ValueError("give either train (files or folders) or dataset.")
        return self

"""The commands ``fourfold tokenizer …``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fourfold.cli.common import plain_errors

tokenizer = typer.Typer(help="Tokenizers: train one on your text.")


@tokenizer.callback()
def group() -> None:
    """Tokenizers: train one on your text."""


@tokenizer.command()
@plain_errors
def train(
    data: Annotated[
        list[Path],
        typer.Option(help="File or folder of .txt, .md, .jsonl, .parquet, also compressed."),
    ],
    vocab_size: Annotated[int, typer.Option(help="Entries, 259 or more.")],
    out: Annotated[Path, typer.Option(help="New folder for the tokenizer.")],
    text: Annotated[str, typer.Option(help="Field of .jsonl or .parquet with the text.")] = "text",
) -> None:
    """Train a byte-level BPE on DATA and save it where a recipe and AutoTokenizer find it."""
    from fourfold.cli.tokenizer import train_tokenizer

    train_tokenizer(data, vocab_size=vocab_size, out=out, text_field=text)

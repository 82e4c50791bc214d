"""Some of the books of https://github.com/mlschmitt/classic-books-markdown, as text to train on.

    git clone https://github.com/mlschmitt/classic-books-markdown runs/language/classic-books
    git -C runs/language/classic-books checkout 94488277
    python results/language/books.py runs/language/classic-books runs/language/books

All titles are in the public domain. Which are taken, and what for, hangs on their names alone: in
the order of a hash of "author/title", 4 MB to validate with, then 24 MB to train on.
"""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

SHARES = {"validation": 4_000_000, "train": 24_000_000}
LARGEST = 1_500_000
"""Longer books are left out, so that no single one makes up much of a share."""


def main(source: Path, target: Path) -> None:
    """Copy the chosen books to ``target``/validation and ``target``/train."""
    books = sorted(
        (path for path in source.glob("*/*.md") if path.stat().st_size <= LARGEST),
        key=lambda path: hashlib.sha256(path.relative_to(source).as_posix().encode()).digest(),
    )
    remaining = iter(books)
    for share, size in SHARES.items():
        folder = target / share
        folder.mkdir(parents=True, exist_ok=True)
        taken = number = 0
        while taken < size:
            book = next(remaining)
            name = re.sub(r"[^\w.]+", "-", f"{book.parent.name}-{book.stem}")
            content = book.read_bytes()
            (folder / f"{name}.txt").write_bytes(content)
            taken, number = taken + len(content), number + 1
        print(f"{share}: {number} books, {taken:,} bytes in {folder}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

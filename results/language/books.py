"""Some of the books of a collection on GitHub, as text to train on.

    python results/language/books.py runs/language/books

clones https://github.com/mlschmitt/classic-books-markdown by git, takes the commit below, and keeps
nothing of the clone but the books that are chosen. Who has that commit at hand gives its folder:

    python results/language/books.py runs/language/books --source classic-books-markdown

All titles are in the public domain. Which are taken, and what for, hangs on their names alone: in
the order of a hash of "author/title", 4 MB to validate with, then 24 MB to train on.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import tempfile
from pathlib import Path

REPOSITORY = "https://github.com/mlschmitt/classic-books-markdown"
COMMIT = "944882722e9a96fa6cf2739dc2ea757e101f412f"

SHARES = {"validation": 4_000_000, "train": 24_000_000}
LARGEST = 1_500_000
"""Longer books are left out, so that no single one makes up much of a share."""


def main() -> None:
    """The books go to TARGET/validation and TARGET/train."""
    parser = argparse.ArgumentParser(description="Books to validate with and to train on.")
    parser.add_argument("target", type=Path, help="folder for them")
    parser.add_argument("--source", type=Path, help="where the repository is; else it is cloned")
    given = parser.parse_args()
    if given.source is not None:
        choose(given.source, given.target)
        return
    with tempfile.TemporaryDirectory() as folder:
        fetch(REPOSITORY, COMMIT, Path(folder))
        choose(Path(folder), given.target)


def fetch(repository: str, commit: str, folder: Path) -> None:
    """The files of ``commit`` in ``folder``, which is empty.

    Raises:
        subprocess.CalledProcessError: git cannot have them, and has said why.
    """
    subprocess.run(["git", "clone", "--no-checkout", repository, str(folder)], check=True)
    subprocess.run(["git", "-C", str(folder), "checkout", "--quiet", commit], check=True)


def choose(source: Path, target: Path) -> None:
    """Copy the chosen books of ``source`` to ``target``/validation and ``target``/train."""
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
    main()

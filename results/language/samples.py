"""How a model goes on from the beginnings of books that it has not seen.

python results/language/samples.py MODEL runs/language/books/validation OUT.json
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import torch

from fourfold import Session
from fourfold.cli.models import open_model
from fourfold.results import provenance, write_result

READ, SAID = 300, 100
"""Tokens of a book behind its first heading of a chapter, and tokens said."""

TEMPERATURES = (0.0, 0.8)
SEED = 0


def main(folder: Path, books: Path, out: Path) -> None:
    """One continuation of each book at each temperature."""
    model, tokenizer = open_model(folder)
    rows = []
    for number, path in enumerate(sorted(books.glob("*.txt"))):
        text = re.split(r"(?m)^#+ .*$", path.read_text(encoding="utf-8"))
        begun = tokenizer.encode(next(part for part in text if len(part) > 20 * READ))[:READ]
        for temperature in TEMPERATURES:
            session = Session(model, tokenizer)
            options = {"do_sample": True, "temperature": temperature} if temperature else {}
            # Of each book its own, or unlike books go on with the same rare words.
            drawn = torch.Generator().manual_seed(SEED + number)
            said = session.generate(begun, max_new_tokens=SAID, generator=drawn, **options)
            rows.append(
                {
                    "book": path.stem,
                    "temperature": temperature,
                    "read": tokenizer.decode(begun),
                    "said": said,
                }
            )
    settings = {"configuration": model.config.identity(), "seed": SEED}
    write_result(out, settings | {"rows": rows} | provenance())
    for row in rows:
        print(f"{row['book']}, {row['temperature']}: … {row['read'][-60:]!r} -> {row['said']!r}")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*map(Path, sys.argv[1:]))

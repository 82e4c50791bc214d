"""Does a session that read a chapter foresee the next better than one that read another book?

    python results/language/session.py MODEL runs/language/books/validation OUT.json

For each pair of chapters that follow each other in a book, three sessions are asked for the loss
of the beginning of the second: one that read the end of the first, one that read as much of another
book, one that read nothing. The sessions that read are saved, and the asking is done in another
process, which has only their files. Collections of stories, whose parts do not go on from each
other, are left out.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

import torch

from fourfold import Session
from fourfold.cli.models import open_model
from fourfold.evaluation.scores import bootstrap
from fourfold.results import provenance, write_result

READ, ASKED = 2000, 500
"""Tokens at the end of a chapter that are read, and at the beginning of the next that are asked."""

PAIRS = 10
"""Of chapters, from each book at most, spread over it."""


def chapters(text: str) -> list[str]:
    """The parts of a book between its headings."""
    return [part for part in re.split(r"(?m)^#+ .*$", text) if part.strip()]


def pairs_of(books: Path, tokenizer) -> list[dict]:
    """Beginnings of chapters, what came before them, and as much from another book."""
    found, before = [], {}
    for path in sorted(books.glob("*.txt")):
        if "Stories" in path.stem:
            continue
        tokens = [tokenizer.encode(part) for part in chapters(path.read_text(encoding="utf-8"))]
        long = [
            (read[-READ:], asked[:ASKED])
            for read, asked in pairwise(tokens)
            if len(read) >= READ and len(asked) >= ASKED
        ]
        before[path.stem] = [read for read, _ in long]
        for index in range(0, len(long), max(1, -(-len(long) // PAIRS))):
            found.append({"book": path.stem, "read": long[index][0], "asked": long[index][1]})
    draw = random.Random(0)
    for pair in found:
        others = [read for book, reads in before.items() if book != pair["book"] for read in reads]
        pair["other"] = draw.choice(others)
    return found


def remember(model: Path, books: Path, folder: Path) -> None:
    """Read and save; the other process asks."""
    opened, tokenizer = open_model(model)
    pairs = pairs_of(books, tokenizer)
    for number, pair in enumerate(pairs):
        for kind in ("read", "other"):
            session = Session(opened, tokenizer)
            session.read(pair.pop(kind))
            session.save(folder / f"{number}.{kind}.session")
    (folder / "pairs.json").write_text(json.dumps(pairs))


def ask(model: Path, folder: Path) -> dict:
    """Nats a token, by what was read before; intervals are 95 % bootstrap intervals over pairs."""
    opened, tokenizer = open_model(model)
    rows = []
    for number, pair in enumerate(json.loads((folder / "pairs.json").read_text())):
        row = {}
        for kind in ("read", "other"):
            session = Session.load(folder / f"{number}.{kind}.session", opened, tokenizer)
            row[kind] = session.losses(pair["asked"])[1:].mean().item()
        row["nothing"] = Session(opened, tokenizer).losses(pair["asked"]).mean().item()
        rows.append({"book": pair["book"], **row})
    gains = torch.tensor([row["other"] - row["read"] for row in rows], dtype=torch.float64)
    return {
        "configuration": opened.config.identity(),
        "pairs": len(rows),
        "books": len({row["book"] for row in rows}),
        "nats_after": {
            kind: sum(row[kind] for row in rows) / len(rows)
            for kind in ("read", "other", "nothing")
        },
        "gain": gains.mean().item(),
        "gain_interval": bootstrap([[[gain] for gain in gains.tolist()]]),
        "better": (gains > 0).double().mean().item(),
        "rows": rows,
    }


def main(model: Path, books: Path, out: Path) -> None:
    """Remember here, ask in another process, write what came out."""
    with tempfile.TemporaryDirectory() as folder:
        remember(model, books, Path(folder))
        command = [sys.executable, __file__, "--ask", str(model), folder]
        asked = subprocess.run(command, check=True, capture_output=True, text=True)
    result = json.loads(asked.stdout)
    write_result(out, result | provenance())
    low, high = result["gain_interval"]
    print(
        f"{model}: {result['gain']:.4f} nats a token less ({low:.4f} to {high:.4f}) after the "
        f"chapter before than after another book, in {result['better']:.0%} of {result['pairs']}."
    )


if __name__ == "__main__":
    if sys.argv[1] == "--ask":
        print(json.dumps(ask(Path(sys.argv[2]), Path(sys.argv[3]))))
    else:
        main(*map(Path, sys.argv[1:4]))

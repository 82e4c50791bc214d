"""``fourfold demo``: a comparison, and a memory that outlives its process."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

from fourfold.cli.common import console, say
from fourfold.cli.compare import run_comparison
from fourfold.cli.models import open_session
from fourfold.data import load_corpus

READ_TOKENS = 2000
NEW_TOKENS = 80


def run_demo(*, out: Path, steps: int) -> None:
    """Compare four memories, then show save, another process, load, the same continuation.

    Raises:
        ValueError: the two continuations differ.
    """
    console.rule("1. Four memories of equal size on the same text")
    corpus = load_corpus()
    run_comparison(corpus=corpus, out=out, steps=steps, learning_rate=4e-3, seed=0)

    console.rule("2. A memory that outlives its process")
    model = out / "atpm"
    path = out / "demo.session"
    session = open_session(model, None)
    session.read(corpus.validation[:READ_TOKENS].tolist())
    session.save(path)
    say(
        f"The ATPM model read {READ_TOKENS:,} bytes that it had never seen; its memory of them "
        f"takes {session.nbytes:,} bytes. Saved to {path} ({path.stat().st_size:,} bytes).\n"
    )
    here = list(session.generate_tokens(max_new_tokens=NEW_TOKENS))
    command = [sys.executable, "-m", "fourfold", "generate", str(model), "--tokens"]
    command += ["--session", str(path), "--max-new-tokens", str(NEW_TOKENS)]
    # What the other process says of errors goes straight to the terminal.
    other = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if other.returncode:
        raise ValueError(f"The other process failed: {shlex.join(command)}")
    there = [int(token) for token in other.stdout.split()]
    for where, tokens in (("This process goes on with", here), ("Another, from the file", there)):
        text = session.tokenizer.decode(tokens)
        say(f"{where}:  {text!r}")
    if here != there:
        raise ValueError("The two continuations differ, which must never happen.")
    say(f"The same {len(here)} tokens.\n")
    called = sys.argv[0] if Path(sys.argv[0]).name == "fourfold" else "fourfold"
    talk = shlex.join([called, "chat", str(model), "--session", str(path)])
    say(f"Talk to it:  {talk}")

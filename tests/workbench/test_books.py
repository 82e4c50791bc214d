"""The script that fetches the books: the commit that it names, and what it takes of it."""

from __future__ import annotations

import re
import runpy
import subprocess
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "results" / "language" / "books.py"


def git(folder, *arguments):
    identity = ["-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", "-C", str(folder), *identity, *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_the_commit_is_named_in_full_and_its_books_are_fetched_by_git(tmp_path, monkeypatch, capfd):
    script = runpy.run_path(str(SCRIPT))
    assert re.fullmatch("[0-9a-f]{40}", script["COMMIT"])
    origin = tmp_path / "origin"
    (origin / "author").mkdir(parents=True)
    git(origin, "init", "--quiet")
    for number in range(12):
        (origin / "author" / f"book {number}.md").write_text(f"of the commit, {number}")
    git(origin, "add", ".")
    git(origin, "commit", "--quiet", "-m", "one")
    commit = git(origin, "rev-parse", "HEAD")
    for path in (origin / "author").iterdir():
        path.write_text("of another one")
    git(origin, "commit", "--quiet", "-am", "two")

    settings = script["main"].__globals__
    monkeypatch.setitem(settings, "REPOSITORY", str(origin))
    monkeypatch.setitem(settings, "COMMIT", commit)
    monkeypatch.setitem(settings, "SHARES", {"validation": 30, "train": 50})
    monkeypatch.setattr("sys.argv", ["books.py", str(tmp_path / "books")])
    settings["main"]()
    taken = [path.read_text() for path in (tmp_path / "books").rglob("*.txt")]
    assert len(taken) == len(set(taken)) == 6
    assert all(text.startswith("of the commit") for text in taken)

    monkeypatch.setattr("sys.argv", ["books.py", str(tmp_path / "given"), "--source", str(origin)])
    monkeypatch.setitem(settings, "fetch", None)
    settings["main"]()
    assert {path.read_text() for path in (tmp_path / "given").rglob("*.txt")} == {"of another one"}

"""``fourfold tokenizer train``, as a user types it."""

from __future__ import annotations

import json
import re

from typer.testing import CliRunner

from fourfold.cli import app
from fourfold.data.tokenizers import load_tokenizer


def train(*arguments):
    command = ["tokenizer", "train", *map(str, arguments)]
    return CliRunner().invoke(app, command)


def test_a_tokenizer_is_trained_saved_and_never_overwritten(tmp_path):
    texts = [f"The cat number {number} sat on the mat.\n" for number in range(300)]
    lines = [json.dumps({"content": text}) for text in texts] + ["{"]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    (tmp_path / "b.txt").write_text("The end of the cat. " * 100)
    out = tmp_path / "new" / "tokenizer"
    arguments = ["--data", tmp_path / "a.jsonl", "--data", tmp_path / "b.txt", "--text", "content"]
    result = train(*arguments, "--vocab-size", 280, "--out", out)
    assert result.exit_code == 0, result.output
    found = re.search(r"280 entries, (\d\.\d\d) bytes a token on (\d+) bytes", result.stdout)
    assert found, result.stdout
    assert float(found[1]) > 1.3
    assert int(found[2]) < 500
    assert "1 bad record" in result.stdout
    assert f"Saved in {out}" in result.stdout
    assert len(load_tokenizer(str(out))) == 280
    before = {path: path.read_bytes() for path in out.iterdir()}

    again = train(*arguments, "--vocab-size", 300, "--out", out)
    assert again.exit_code == 1
    assert (
        again.stderr == f"fourfold: out must be a new or an empty folder; {out} holds something.\n"
    )
    assert {path: path.read_bytes() for path in out.iterdir()} == before
    assert [path.name for path in out.parent.iterdir()] == ["tokenizer"]


def test_one_long_text_and_few_pairs_are_enough(tmp_path):
    (tmp_path / "a.txt").write_text("ab " * 2000)
    (tmp_path / "out").mkdir()
    options = ["--data", tmp_path, "--out", tmp_path / "out"]
    result = train(*options, "--vocab-size", 1000)
    assert result.exit_code == 0, result.output
    assert "no pairs left to join for 1,000 entries" in result.stdout
    small = train(*options, "--vocab-size", 258)
    assert small.exit_code == 1
    assert "vocab_size must be at least 259" in small.stderr

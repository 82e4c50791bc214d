"""Without lm-eval, whoever asks for it hears what to install."""

from __future__ import annotations

import sys

from typer.testing import CliRunner
from zoo import build

from fourfold import ByteTokenizer
from fourfold.cli import app


def test_the_command_says_what_to_install(tmp_path, monkeypatch):
    build("lstm", vocab_size=259).save_pretrained(tmp_path)
    ByteTokenizer().save_pretrained(tmp_path)
    monkeypatch.setitem(sys.modules, "lm_eval", None)
    monkeypatch.setitem(sys.modules, "lm_eval.tasks", None)
    result = CliRunner().invoke(app, ["lm-eval", str(tmp_path), "--tasks", "colour"])
    assert result.exit_code == 1
    assert result.stderr.endswith('not installed: pip install "fourfold[lm-eval]".\n')
    assert result.stderr.count("\n") == 1

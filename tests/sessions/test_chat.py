"""``fourfold chat`` as a real process."""

from __future__ import annotations

import subprocess
import sys

import pytest
from zoo import build

from fourfold import ByteTokenizer, Session


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    build("atpm", vocab_size=259, eos_token_id=258).save_pretrained(folder)
    ByteTokenizer().save_pretrained(folder)
    return folder


def chat(model_folder, *arguments, lines):
    command = [sys.executable, "-m", "fourfold", "chat", str(model_folder), *arguments]
    command += ["--max-new-tokens", "4", "--temperature", "0"]
    return subprocess.run(
        command, input="\n".join(lines), capture_output=True, text=True, timeout=120
    )


def test_a_conversation_is_saved_forked_rolled_back_and_remembered(model_folder, tmp_path):
    file, fork = tmp_path / "memory", tmp_path / "fork"
    lines = ["hello", "/state", "/rollback", "/rollback", "hi", "/save", f"/fork {fork}"]
    first = chat(model_folder, "--session", str(file), lines=[*lines, "more", "/what", "/help"])
    assert first.returncode == 0, first.stderr
    assert "layers.0.memory" in first.stdout
    assert "10 tokens seen" in first.stdout
    assert "Rolled back to 0 tokens." in first.stdout
    assert "There is no exchange to roll back" in first.stdout
    assert "There is no /what; /help lists the commands." in first.stdout
    assert "/fork FILE" in first.stdout

    model = build("atpm", vocab_size=259, eos_token_id=258)
    assert Session.load(file, model, ByteTokenizer()).tokens_seen == 3 + 4
    assert Session.load(fork, model, ByteTokenizer()).tokens_seen == 3 + 4 + 5 + 4
    second = chat(model_folder, "--session", str(fork), lines=["/quit"])
    assert "The model remembers 16 tokens." in second.stdout


def test_a_wrong_file_is_a_sentence_and_no_traceback(model_folder, tmp_path):
    (tmp_path / "x").write_text("not a session")
    result = chat(model_folder, "--session", str(tmp_path / "x"), lines=[])
    assert result.returncode == 1
    assert "no safetensors file" in result.stderr
    assert "Traceback" not in result.stderr

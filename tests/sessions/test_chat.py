"""``fourfold chat`` as a real process."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner
from zoo import build

from fourfold import ByteTokenizer, Session
from fourfold.cli import app
from fourfold.cli.chat import Chat
from fourfold.cli.models import open_session


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    build("atpm", vocab_size=259, eos_token_id=258).save_pretrained(folder)
    ByteTokenizer().save_pretrained(folder)
    return folder


def start(model_folder, *arguments):
    """A chat whose input stays open."""
    command = [sys.executable, "-u", "-m", "fourfold", "chat", str(model_folder), *arguments]
    command += ["--max-new-tokens", "4", "--temperature", "0"]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)


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
    assert str(file) in first.stdout.split("Going on in")[1]
    second = chat(model_folder, "--session", str(fork), lines=["/quit"])
    assert "The model remembers 16 tokens." in second.stdout


def test_nothing_is_started_that_could_not_be_saved(model_folder, tmp_path):
    (tmp_path / "x").write_text("not a session")
    for path, words in ((tmp_path / "x", "no safetensors file"), (tmp_path / "no/s", "missing")):
        result = CliRunner().invoke(app, ["chat", str(model_folder), "--session", str(path)])
        assert result.exit_code == 1
        assert words in result.stderr
    assert (tmp_path / "x").read_text() == "not a session"


def test_a_conversation_that_is_told_to_end_is_saved(model_folder, tmp_path):
    process = start(model_folder, "--session", str(tmp_path / "s"))
    process.stdin.write(b"caf\xe9\n")
    process.stdin.flush()
    said = b""
    while said.count(b"> ") < 2:  # the second prompt stands behind the answer
        line = process.stdout.read1()
        assert line, process.stderr.read()
        said += line
    process.send_signal(signal.SIGHUP)
    assert process.wait(60) == 128 + signal.SIGHUP
    model = build("atpm", vocab_size=259, eos_token_id=258)
    # The broken byte was read as U+FFFD, of three bytes.
    assert Session.load(tmp_path / "s", model, ByteTokenizer()).tokens_seen == 7 + 4


def conversation(model_folder, path):
    session = open_session(model_folder, None)
    return Chat(session, path, max_new_tokens=4, temperature=0.0)


def test_a_file_of_the_user_is_never_replaced_by_a_command(model_folder, tmp_path):
    chat = conversation(model_folder, None)
    chat.answer("hello")
    (tmp_path / "thesis.md").write_text("years of work")
    for command in ("/save", "/fork"):
        with pytest.raises(ValueError, match="exists already"):
            chat.command(f"{command} {tmp_path / 'thesis.md'}")
    assert (tmp_path / "thesis.md").read_text() == "years of work"


def test_a_memory_that_cannot_go_to_its_file_goes_to_another(model_folder, tmp_path, capsys):
    (tmp_path / "folder").mkdir()
    chat = conversation(model_folder, tmp_path / "folder" / "s")
    chat.answer("hello")
    (tmp_path / "folder").rmdir()
    chat.keep()
    said = capsys.readouterr().out
    rescue = said.split("the memory is in ")[1].strip().removesuffix(".")
    loaded = Session.load(rescue, chat.session.model, chat.session.tokenizer)
    assert loaded.tokens_seen == chat.session.tokens_seen == 6 + 4
    Path(rescue).unlink()


def test_an_answer_that_fails_midway_can_be_rolled_back(model_folder, monkeypatch):
    chat = conversation(model_folder, None)

    class Terminal:
        def write(self, text):
            raise OSError("gone")

    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", Terminal())
        with pytest.raises(OSError, match="gone"):
            chat.answer("hello")
    assert chat.session.tokens_seen > 0
    chat.rollback()
    assert chat.session.tokens_seen == 0

"""The command line, as a user types it."""

from __future__ import annotations

import random
import re

import pytest
from typer.main import get_command
from typer.testing import CliRunner
from zoo import build

from fourfold import ByteTokenizer
from fourfold.cli import app


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_compare_trains_models_on_the_users_text_and_then_knows_them(tmp_path):
    chance = random.Random(0)
    words = ["alpha", "beta", "gamma", "delta", "epsilon"]
    text = " ".join(chance.choices(words, k=4000))
    (tmp_path / "text.txt").write_text(text)
    arguments = ["--data", tmp_path / "text.txt", "--out", tmp_path / "out", "--steps", 1]
    arguments += ["--also", "deltanet"]
    first = invoke("compare", *arguments)
    assert first.exit_code == 0, first.output
    for name in ("ATPM", "Gated DeltaNet", "Transformer", "LSTM", "deltanet", "159,"):
        assert name in first.output
    assert (tmp_path / "out" / "report.html").exists()
    written = (tmp_path / "out" / "atpm" / "result.json").read_bytes()
    second = invoke("compare", *arguments)
    assert second.exit_code == 0, second.output
    assert "already finished" in second.output
    (tmp_path / "text.txt").write_text(text.replace("alpha", "omega"))
    third = invoke("compare", *arguments)
    assert third.exit_code == 1
    assert "other settings (different: text)" in third.stderr
    assert (tmp_path / "out" / "atpm" / "result.json").read_bytes() == written

    (tmp_path / "out" / "report.html").unlink()
    assert invoke("report", tmp_path / "out").exit_code == 0
    assert (tmp_path / "out" / "report.html").exists()

    table = invoke("report", tmp_path / "out", "--table").stdout
    assert table.startswith("| model | parameters |")
    assert table.count("\n") == 7

    generated = invoke("generate", tmp_path / "out" / "atpm", "--prompt", "al", "--tokens")
    assert generated.exit_code == 0, generated.output
    assert re.fullmatch(r"\d+( \d+){0,63}\n", generated.stdout)


def test_demo_ends_with_the_same_continuation_from_another_process(tmp_path):
    result = invoke("demo", "--out", tmp_path, "--steps", 1)
    assert result.exit_code == 0, result.output
    assert "The same 80 tokens." in result.output
    assert (tmp_path / "report.html").exists()
    assert (tmp_path / "demo.session").exists()


def test_errors_are_one_sentence(tmp_path):
    model, damaged = tmp_path / "model", tmp_path / "damaged"
    for folder in (model, damaged):
        build("lstm", vocab_size=259).save_pretrained(folder)
        ByteTokenizer().save_pretrained(folder)
    (damaged / "model.safetensors").write_bytes(b"half")
    for arguments, words in (
        (["compare", "--data", tmp_path / "none"], "does not exist"),
        (["report", tmp_path], "holds no results"),
        (["generate", tmp_path], "holds no saved model"),
        (["chat", tmp_path], "holds no saved model"),
        (["generate", model, "--session", tmp_path / "typo"], "No such file"),
        (["generate", damaged], "cannot be read"),
    ):
        result = invoke(*arguments)
        assert result.exit_code == 1
        assert words in result.stderr
        assert result.stderr.count("\n") == 1


def test_generate_without_anything_to_go_on_from_says_so(tmp_path):
    build("lstm", vocab_size=259).save_pretrained(tmp_path)
    ByteTokenizer().save_pretrained(tmp_path)
    result = invoke("generate", tmp_path)
    assert result.exit_code == 1
    assert "Nothing has been read yet" in result.stderr


@pytest.mark.parametrize("command", ["compare", "demo", "chat", "generate", "report", "prove"])
def test_every_command_explains_itself(command):
    assert invoke(command, "--help").exit_code == 0


def commands_of(command, name="fourfold"):
    yield name, command
    for word, inner in getattr(command, "commands", {}).items():
        yield from commands_of(inner, f"{name} {word}")


def test_help_holds_no_brackets_which_would_be_taken_for_markup_and_left_out():
    found = [
        (name, parameter.name)
        for name, command in commands_of(get_command(app))
        for parameter in command.params
        if "[" in (getattr(parameter, "help", None) or "")
    ]
    assert found == []

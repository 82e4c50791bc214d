"""The session file: another process gets the same memory back, and only from a whole file."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
import safetensors.torch
import tokenizers
import torch
from saver import FIRST, SECOND, save_for_ever
from transformers import PreTrainedTokenizerFast
from zoo import KINDS, build

from fourfold import ByteTokenizer, Session
from fourfold.sessions.file import read_session_file, write_session_file

TOKENIZER = ByteTokenizer()
TEXT = "Alice lives in Paris. Bob lives in Rome. " * 3
KILLS = 30
EVENT = ("token", "layer", "head", "norm", "bound")


def saved(path: Path, kind: str = "atpm", text: str = TEXT) -> Session:
    session = Session(build(kind, vocab_size=259, eos_token_id=258), TOKENIZER)
    session.read(text)
    session.save(path)
    return session


@pytest.mark.parametrize("kind", KINDS)
def test_a_loaded_session_goes_on_exactly_where_it_was(kind, tmp_path):
    session = saved(tmp_path / "s", kind)
    loaded = Session.load(tmp_path / "s", session.model, TOKENIZER)
    assert loaded.tokens_seen == session.tokens_seen
    assert loaded.created == session.created
    assert all(torch.equal(x, loaded.state[name]) for name, x in session.state.items())
    assert list(loaded.generate_tokens(max_new_tokens=20)) == list(
        session.generate_tokens(max_new_tokens=20)
    )


def test_another_process_gives_the_same_continuation(tmp_path):
    session = saved(tmp_path / "s")
    session.model.save_pretrained(tmp_path / "model")
    TOKENIZER.save_pretrained(tmp_path / "model")
    command = [sys.executable, "-m", "fourfold", "generate", str(tmp_path / "model"), "--tokens"]
    command += ["--session", str(tmp_path / "s"), "--max-new-tokens", "25"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert [int(token) for token in output.split()] == list(
        session.generate_tokens(max_new_tokens=25)
    )


def test_an_unread_session_can_be_saved_and_loaded(tmp_path):
    model = build("atpm", vocab_size=259)
    Session(model, TOKENIZER).save(tmp_path / "s")
    loaded = Session.load(tmp_path / "s", model, TOKENIZER)
    assert loaded.tokens_seen == 0
    loaded.read("a")


def test_any_safetensors_reader_can_open_it(tmp_path):
    session = saved(tmp_path / "s")
    tensors = safetensors.torch.load_file(tmp_path / "s")
    assert torch.equal(tensors["layers.0.memory"], session.state["layers.0.memory"])
    with safetensors.safe_open(tmp_path / "s", "pt") as file:
        metadata = file.metadata()
    assert metadata["format"] == "fourfold-session"
    assert metadata["format_version"] == "1"
    description = json.loads(metadata["description"])
    assert description["tokens_seen"] == session.tokens_seen
    assert {"model_configuration", "model_weights", "tokenizer", "created", "saved"} <= set(
        description
    )


def test_any_flipped_byte_is_noticed(tmp_path):
    path = tmp_path / "s"
    saved(path)
    data = path.read_bytes()
    chance = random.Random(0)
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"damaged|no safetensors|truncated|format|session"):
            read_session_file(path)


def test_truncated_and_lengthened_files_are_refused(tmp_path):
    path = tmp_path / "s"
    saved(path)
    data = path.read_bytes()
    for length in [*range(0, 200), *range(200, len(data), 97), len(data) - 1]:
        path.write_bytes(data[:length])
        with pytest.raises(ValueError, match=r"truncated|damaged"):
            read_session_file(path)
    path.write_bytes(data + b"\0")
    with pytest.raises(ValueError, match="damaged"):
        read_session_file(path)


def test_foreign_files_are_refused(tmp_path):
    model = build("atpm", vocab_size=259)
    foreign = {
        "text": b"Dear memory, " * 100,
        "noise": random.Random(0).randbytes(5000),
        "zeros": bytes(1000),
        "huge header": (2**63).to_bytes(8, "little") + b"{}",
        "nested": (10**5).to_bytes(8, "little") + b"[" * 10**5,
        "list": (2).to_bytes(8, "little") + b"[]",
        "other safetensors": safetensors.torch.save({"x": torch.zeros(2)}),
    }
    for name, data in foreign.items():
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(ValueError, match=str(path)):
            Session.load(path, model, TOKENIZER)
    torch.save({"x": torch.zeros(2)}, tmp_path / "pickle")
    with pytest.raises(ValueError, match="safetensors"):
        Session.load(tmp_path / "pickle", model, TOKENIZER)
    with pytest.raises(FileNotFoundError):
        Session.load(tmp_path / "nothing", model, TOKENIZER)


def forge(path: Path, change) -> None:
    """Change a session file's contents and sign it anew."""
    tensors, text = read_session_file(path)
    description = json.loads(text)
    change(tensors, description)
    write_session_file(path, tensors, json.dumps(description))


@pytest.mark.parametrize("value", (float("nan"), float("inf")))
def test_a_signed_file_with_nan_is_refused(tmp_path, value):
    session = saved(tmp_path / "s")

    def poison(tensors, description):
        tensors["layers.1.memory"][0, 0, 0, 0] = value

    forge(tmp_path / "s", poison)
    with pytest.raises(ValueError, match=r"NaN or infinity in layers\.1\.memory"):
        Session.load(tmp_path / "s", session.model, TOKENIZER)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t, d: t.pop("layers.0.memory"), "lacks layers.0.memory"),
        (lambda t, d: t.update(extra=torch.zeros(1)), "tensors of no layer: extra"),
        (lambda t, d: t.update({"layers.0.memory": torch.zeros(1, 2)}), "of shape"),
        (lambda t, d: t.update({"layers.0.memory": t["layers.0.memory"].double()}), "float64"),
        (lambda t, d: t.update(next_logits=torch.zeros(3)), "logits of shape"),
        (lambda t, d: d.update(tokens_seen="many"), "tokens_seen"),
        (lambda t, d: d.update(max_state_norm=-1.0), "max_state_norm"),
        (lambda t, d: t.update(next_logits=torch.zeros(259).long()), "and torch.int64"),
        (lambda t, d: t.pop("next_logits"), "lacks the logits"),
        (lambda t, d: t.update(extra=torch.zeros(1).to(torch.float8_e4m3fn)), "no layer: extra"),
        (lambda t, d: d.pop("tokenizer"), "tokenizer"),
        (lambda t, d: d.update(tokens_seen=True), "tokens_seen"),
        (lambda t, d: d.update(model_configuration=[1]), "model_configuration"),
        (lambda t, d: d.update(surplus=1), "surplus"),
        (lambda t, d: d.update(guard_events=[{"token": 1}]), "guard_events"),
        (lambda t, d: d.update(guard_events=[dict.fromkeys(EVENT, "x")]), "guard_events"),
    ],
)
def test_signed_files_with_impossible_contents_are_refused(tmp_path, change, words):
    session = saved(tmp_path / "s")
    forge(tmp_path / "s", change)
    with pytest.raises(ValueError, match=words):
        Session.load(tmp_path / "s", session.model, TOKENIZER)


def test_another_model_is_refused_with_what_differs(tmp_path):
    session = saved(tmp_path / "s")
    larger = build("atpm", vocab_size=259, eos_token_id=258, intermediate_size=32)
    with pytest.raises(ValueError, match="intermediate_size is 24 in the file and 32 in the model"):
        Session.load(tmp_path / "s", larger, TOKENIZER)
    other_kind = build("comba", vocab_size=259, eos_token_id=258)
    with pytest.raises(ValueError, match="layer_types"):
        Session.load(tmp_path / "s", other_kind, TOKENIZER)
    with torch.no_grad():
        next(session.model.parameters())[0, 0] += 1e-6
    with pytest.raises(ValueError, match="the weights, though the configuration is the same"):
        Session.load(tmp_path / "s", session.model, TOKENIZER)


def test_another_tokenizer_is_refused(tmp_path):
    session = saved(tmp_path / "s")
    other = ByteTokenizer(eos_token="<|end|>")
    with pytest.raises(ValueError, match="the tokenizer"):
        Session.load(tmp_path / "s", session.model, other)


def test_a_deeply_nested_description_is_refused(tmp_path):
    session = saved(tmp_path / "s")
    tensors, _ = read_session_file(tmp_path / "s")
    write_session_file(tmp_path / "s", tensors, "[" * 10**5)
    with pytest.raises(ValueError, match="no readable session file"):
        Session.load(tmp_path / "s", session.model, TOKENIZER)


def test_a_memory_of_another_precision_is_refused_with_both_named(tmp_path):
    session = saved(tmp_path / "s")
    with pytest.raises(ValueError, match=r"torch\.float32 in the file and torch\.bfloat16 in the"):
        Session.load(tmp_path / "s", session.model.bfloat16(), TOKENIZER)


def test_a_tokenizer_that_reads_special_tokens_in_text_is_another(tmp_path):
    session = saved(tmp_path / "s")
    with pytest.raises(ValueError, match="the tokenizer"):
        Session.load(tmp_path / "s", session.model, ByteTokenizer(split_special_tokens=False))


def test_how_a_fast_tokenizer_pads_does_not_change_the_owner(tmp_path):
    rules = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1, "?": 2}, "?"))
    rules.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=rules, pad_token="?")
    session = Session(build("atpm"), tokenizer)
    session.read("a b a")
    session.save(tmp_path / "s")
    tokenizer(["a", "a b a"], padding=True, truncation=True, max_length=2)
    assert Session.load(tmp_path / "s", session.model, tokenizer).tokens_seen == 3


def test_looking_at_hidden_states_does_not_change_the_owner(tmp_path):
    session = saved(tmp_path / "s")
    session.model.config.output_hidden_states = True
    Session.load(tmp_path / "s", session.model, TOKENIZER)


def test_saving_through_a_link_writes_where_it_leads(tmp_path):
    session = saved(tmp_path / "s")
    (tmp_path / "link").symlink_to("s")
    session.read("more")
    session.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    loaded = Session.load(tmp_path / "s", session.model, TOKENIZER)
    assert loaded.tokens_seen == session.tokens_seen


def test_a_folder_that_cannot_be_synced_does_not_turn_success_into_failure(tmp_path, monkeypatch):
    session = saved(tmp_path / "s")
    real = os.fsync

    def only_files(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(22, "Invalid argument")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", only_files)
    session.read("more")
    session.save(tmp_path / "s")
    assert Session.load(tmp_path / "s", session.model, TOKENIZER).tokens_seen == session.tokens_seen


def test_errors_name_the_file_that_the_user_named(tmp_path):
    session = saved(tmp_path / "s")
    for path in (tmp_path / "nowhere" / "s", tmp_path):
        with pytest.raises(OSError) as caught:
            session.save(path)
        assert caught.value.filename == str(path)
        assert ".tmp" not in str(caught.value).replace(str(tmp_path), "")


def test_a_long_name_can_be_saved(tmp_path):
    saved(tmp_path / ("n" * 250))


def test_what_only_changes_speed_does_not_change_the_owner(tmp_path):
    saved(tmp_path / "s")
    model = build("atpm", vocab_size=259, eos_token_id=258, chunk_size=16)
    Session.load(tmp_path / "s", model, TOKENIZER)


def test_a_file_from_before_a_field_existed_still_belongs_to_its_model(tmp_path):
    session = saved(tmp_path / "s")
    later = ("atpm_rho", "atpm_lambda", "atpm_joint_beta", "decay_times")
    forge(tmp_path / "s", lambda t, d: [d["model_configuration"].pop(name) for name in later])
    loaded = Session.load(tmp_path / "s", session.model, TOKENIZER)
    assert loaded.tokens_seen == session.tokens_seen
    other = build("atpm", vocab_size=259, eos_token_id=258, atpm_rho=0.0)
    with pytest.raises(ValueError, match=r"atpm_rho is None in the file and 0\.0 in the model"):
        Session.load(tmp_path / "s", other, TOKENIZER)


def test_an_overflown_memory_is_not_saved(tmp_path):
    session = saved(tmp_path / "s")
    before = (tmp_path / "s").read_bytes()
    session._next_logits = session._next_logits * float("nan")
    with pytest.raises(ValueError, match="NaN or infinity in next_logits"):
        session.save(tmp_path / "s")
    assert (tmp_path / "s").read_bytes() == before


def test_a_failed_save_leaves_the_old_file_and_no_debris(tmp_path, monkeypatch):
    session = saved(tmp_path / "s")
    before = (tmp_path / "s").read_bytes()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    session.read("more")
    with pytest.raises(OSError, match="No space left"):
        session.save(tmp_path / "s")
    assert (tmp_path / "s").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


def test_saving_keeps_the_rights_of_the_file(tmp_path):
    session = saved(tmp_path / "s")
    assert (tmp_path / "s").stat().st_mode & 0o777 == 0o666 & ~_umask()
    (tmp_path / "s").chmod(0o600)
    session.save(tmp_path / "s")
    assert (tmp_path / "s").stat().st_mode & 0o777 == 0o600


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_kill_9_while_saving_leaves_the_old_file_or_the_new_one(tmp_path, record_property):
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["fourfold", "saver"])
    model = build("atpm", vocab_size=259)
    expected = {}
    for text in (FIRST, SECOND):
        session = Session(model, TOKENIZER)
        session.read(text)
        expected[session.tokens_seen] = session.state
    chance = random.Random(0)
    path = tmp_path / "s"
    found = []
    for _ in range(KILLS):
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=save_for_ever, args=(str(path), sender))
        process.start()
        assert receiver.recv() == "saved"
        time.sleep(chance.uniform(0, 0.03))
        process.kill()
        process.join()
        assert process.exitcode == -9
        loaded = Session.load(path, model, TOKENIZER)
        found.append(loaded.tokens_seen)
        for name, tensor in expected[loaded.tokens_seen].items():
            torch.testing.assert_close(loaded.state[name], tensor, rtol=0, atol=1e-5)
    halves = len([x for x in tmp_path.iterdir() if x.suffix == ".tmp"])
    record_property(
        f"sessions found after {KILLS} kills during saving",
        f"{found.count(len(FIRST))} of the first text, {found.count(len(SECOND))} of the second; "
        f"{halves} unfinished temporary files beside it",
    )
    assert len(set(found)) == 2

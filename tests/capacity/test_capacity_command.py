"""``fourfold capacity``."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from fourfold import ByteTokenizer, FourfoldConfig, FourfoldForCausalLM
from fourfold.cli import app
from fourfold.tasks import make_task


def invoke(*arguments):
    return CliRunner().invoke(app, ["capacity", *map(str, arguments)])


def save_model(folder, *, text=False):
    size = {} if text else {"vocab_size": make_task("kv_recall").vocab_size, "eos_token_id": None}
    config = FourfoldConfig(
        hidden_size=16,
        num_attention_heads=2,
        layer_types=["atpm"] * 2,
        initializer_range=0.3,
        **size,
    )
    FourfoldForCausalLM(config).save_pretrained(folder)
    if text:
        ByteTokenizer().save_pretrained(folder)


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "study.yaml"
    path.write_text(
        "address_dims: [8]\nitems: [2, 4]\ndraws: 2\nreads: 1\nheads: [1, 2]\n"
        "addresses: [random, similar]\n"
    )
    return path


def test_the_command_measures_a_study_and_draws_it(tmp_path, study):
    out = tmp_path / "out"
    done = invoke(study, "draws=3", "--tokens", 128, "--seeds", 2, "--out", out)
    assert done.exit_code == 0, done.output
    result = json.loads((out / "capacity.json").read_text())
    assert result["settings"]["draws"] == 3
    assert len(result["rows"]) == 4 * 2 * 2 * 2 + 4 * 2 * 2
    assert {row["seed"] for row in result["streams"] if row["stream"] == "random"} == {0, 1}
    names = ("recall", "interference", "neighbours", "streams", "variations")
    pictures = {path.stem: path.read_bytes() for path in out.glob("*.png")}
    assert set(pictures) == set(names)
    assert all(picture[:4] == b"\x89PNG" for picture in pictures.values())
    assert "‖b‖" in done.output
    # The figures of the same file are the same again.
    done = invoke(out / "capacity.json", "--out", tmp_path / "again")
    assert done.exit_code == 0, done.output
    for name in names:
        assert (tmp_path / "again" / f"{name}.png").read_bytes() == pictures[name]
    assert not (tmp_path / "again" / "capacity.json").exists()


def test_the_command_measures_a_model(tmp_path):
    save_model(tmp_path / "model")
    out = tmp_path / "out"
    options = ("--items", "1,3", "--examples", 5, "--tokens", 128, "--bound", 0.001, "--out", out)
    done = invoke(tmp_path / "model", "value_tokens=1", *options)
    assert done.exit_code == 0, done.output
    result = json.loads((out / "capacity.json").read_text())
    assert [row["items"] for row in result["rows"]] == [1, 3]
    assert {row["kind"] for row in result["interference"]} == {"new", "again"}
    streams = {}
    for row in result["streams"]:
        streams.setdefault((row["stream"].split(" (")[0], row["guarded"]), []).append(row)
    assert set(streams) == {
        (name, guarded) for name in ("random tokens", "worst pair") for guarded in (False, True)
    }
    for (_, guarded), rows in streams.items():
        assert [row["token"] for row in rows] == [64, 128]
        assert (rows[-1]["scaled"] > 0) == guarded
    assert {path.stem for path in out.glob("*.png")} == {"recall", "interference", "streams"}


def test_a_model_of_text_reads_text(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    save_model(tmp_path / "model", text=True)
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("It was the best of times. " * 20)
    out = tmp_path / "out"
    done = invoke(
        tmp_path / "model",
        "--data",
        tmp_path / "texts",
        "--tokens",
        128,
        "--out",
        out,
    )
    assert done.exit_code == 0, done.output
    result = json.loads((out / "capacity.json").read_text())
    rows = [row for row in result["streams"] if row["stream"] == "text"]
    assert [(row["guarded"], row["token"]) for row in rows] == [
        (False, 64),
        (False, 128),
        (True, 64),
        (True, 128),
    ]
    assert result["rows"] == result["interference"] == []
    assert {path.stem for path in out.glob("*.png")} == {"streams"}


def test_text_is_refused_where_the_tokenizer_is_not_the_models_own(tmp_path):
    save_model(tmp_path / "model")
    (tmp_path / "a.txt").write_text("text")
    refused = invoke(tmp_path / "model", "--data", tmp_path / "a.txt", "--out", tmp_path / "out")
    assert refused.exit_code == 1
    assert "it is not the model's own" in refused.output.replace("\n", " ")


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        ("address_dim: [8]", (), "Did you mean 'address_dims'?"),
        ("heads: [3]", (), "heads must divide the 64 columns; got 3"),
        ("columns: [64, 6]\nheads: [4]", (), "heads must divide the 6 columns; got 4"),
        ("columns: [1]", (), "columns must be 2 or more"),
        ("decays: [0.0]", (), "decays must be above 0 and at most 1"),
        ("similarity: [1.0]", (), "similarity must be from 0 to below 1"),
        ("items: [0]", (), "items and address_dims must be 1 or more"),
        ("items: [8]\ncodebook: 4", (), "items must be at most the 4 values of the codebook"),
        ("address_dims: [1]", (), "similar addresses need address_dims of 2 or more"),
        ("transports: [{rho: 2.0}]", (), "less than or equal to 1"),
        ("draws: 2", ("draws=1",), "greater than or equal to 2"),
    ],
)
def test_a_study_that_cannot_be_made_is_refused(tmp_path, content, arguments, message):
    study = tmp_path / "study.yaml"
    study.write_text(content)
    refused = invoke(study, *arguments, "--out", tmp_path / "out")
    assert refused.exit_code == 1
    assert message in refused.output.replace("\n", " ")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--items", "1,b"), "items must be numbers from 1, like 1,2,4"),
        (("--data", "x.txt", "value_tokens=1"), "Fields are of a task, and no --task was given"),
        (("--bound", 0), "bound must be positive and at most 1e+26; got 0"),
        (("--seeds", 2), "--seeds is of a study"),
    ],
)
def test_options_of_a_model_that_make_no_sense_are_refused(tmp_path, options, message):
    save_model(tmp_path / "model")
    refused = invoke(tmp_path / "model", *options, "--out", tmp_path / "out")
    assert refused.exit_code == 1
    assert message in refused.output.replace("\n", " ")


def test_what_is_of_the_other_is_refused(tmp_path, study):
    refused = invoke(study, "--items", "1,2", "--out", tmp_path / "out")
    assert refused.exit_code == 1
    assert "--items is of a model" in refused.output
    (tmp_path / "capacity.json").write_text("{}")
    for arguments, message in (((), "is no capacity.json"), (("draws=2",), "takes no fields")):
        refused = invoke(tmp_path / "capacity.json", *arguments, "--out", tmp_path / "out")
        assert refused.exit_code == 1
        assert message in refused.output.replace("\n", " ")

"""fourfold evaluate: what it says and writes."""

from __future__ import annotations

import json

import pytest
from transformers import LlamaConfig, LlamaForCausalLM
from typer.testing import CliRunner

from fourfold import ByteTokenizer
from fourfold.cli import app
from fourfold.models import FourfoldConfig, FourfoldForCausalLM


@pytest.fixture
def saved(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    config = FourfoldConfig(hidden_size=16, num_attention_heads=1, layer_types=["atpm"])
    FourfoldForCausalLM(config).save_pretrained(tmp_path / "model")
    ByteTokenizer().save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def invoke(*arguments):
    return CliRunner().invoke(app, ["evaluate", *map(str, arguments)])


def test_bad_records_are_told_and_the_folder_of_the_results_is_made(saved, tmp_path):
    data = tmp_path / "data.jsonl"
    data.write_text('{"text": "one line"}\n{bad\n{"text": "and another"}\n')
    out = tmp_path / "not" / "there" / "result.json"
    done = invoke(saved, "--data", data, "--out", out)
    assert done.exit_code == 0, done.output
    assert "Left out: 1 bad record." in done.output
    assert "line 2, must be a JSON object" in done.output.replace("\n", " ")
    result = json.loads(out.read_text())
    assert result["tokens"] == len("one line") + len("and another")
    assert result["documents"] == 2


def test_the_text_is_called_text_and_its_tokens_lie_where_they_are_asked_to(saved, tmp_path):
    data, folder = tmp_path / "data.txt", tmp_path / "tokens"
    data.write_text("one text and no other")
    done = invoke(saved, "--data", data, "--cache", folder)
    assert done.exit_code == 0, done.output
    assert "Text: 1 document, 21 bytes, 22 tokens." in done.output
    assert "Validation" not in done.output
    assert len([*folder.glob("*/validation/tokens.bin")]) == 1
    assert not (tmp_path / "cache" / "fourfold" / "data").exists()
    refused = invoke(saved, "--data", data, "--cache", data)
    assert refused.exit_code == 1
    assert "--cache" in refused.stderr


def test_a_stream_has_one_lane_unless_told_otherwise(saved, tmp_path):
    (tmp_path / "data.jsonl").write_text('{"text": "one line"}\n' * 9)
    lanes = []
    for options in (["stream"], ["document"], ["stream", "--lanes", 3]):
        out = tmp_path / "result.json"
        done = invoke(saved, "--data", tmp_path / "data.jsonl", "--out", out, "--memory", *options)
        assert done.exit_code == 0, done.output
        result = json.loads(out.read_text())
        lanes.append(result["lanes"])
        if options == ["stream"]:
            assert result["by_position"][-1]["stop"] == 128  # 9 documents of 9 tokens
    assert lanes == [1, 8, 3]


def test_a_tokenizer_of_another_model_is_refused(saved, tmp_path):
    config = FourfoldConfig(
        hidden_size=16, num_attention_heads=1, layer_types=["atpm"], vocab_size=100
    )
    FourfoldForCausalLM(config).save_pretrained(saved)
    (tmp_path / "data.txt").write_text("some text")
    refused = invoke(saved, "--data", tmp_path / "data.txt")
    assert refused.exit_code == 1
    assert "The tokenizer has 259 entries and the model 100" in refused.output


@pytest.fixture
def labelled(tmp_path):
    path = tmp_path / "texts.tsv"
    path.write_text("".join(f"number {n}\t{'odd' if n % 2 else 'even'}\n" for n in range(12)))
    return path


def test_a_suite_shows_its_rows_and_keeps_them(saved, labelled, tmp_path):
    out = tmp_path / "results" / "icl.json"
    done = invoke(
        saved, "--suite", "icl", "--data", labelled, "--out", out, "shots=[1, 2]", "examples=4"
    )
    assert done.exit_code == 0, done.output
    assert "anonymous" in done.output
    assert "50.0 %" in done.output  # chance
    result = json.loads(out.read_text())
    assert result["suite"] == "icl"
    assert result["data"] == "texts.tsv"
    assert result["settings"]["shots"] == [1, 2]
    assert result["configuration"]["layer_types"] == ["atpm"]
    assert [(row["labels"], row["shots"]) for row in result["rows"]] == [
        (labels, shots) for labels in ("real", "anonymous") for shots in (1, 2)
    ]


def test_a_suite_asks_a_model_of_transformers(saved, labelled):
    config = LlamaConfig(
        vocab_size=259,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
    )
    LlamaForCausalLM(config).save_pretrained(saved)
    arguments = ("--data", labelled, "shots=[1]", "examples=4", "orders=1")
    done = invoke(saved, "--suite", "icl", *arguments)
    assert done.exit_code == 0, done.output
    refused = invoke(saved, "--data", labelled)
    assert refused.exit_code == 1
    assert "holds a LlamaForCausalLM, not a model of fourfold" in refused.output.replace("\n", " ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--suite", "icll"), "Did you mean 'icl'?"),
        (("--suite", "icl", "--lanes", "3"), "field=value; got lanes"),
        (("--suite", "icl", "--data", "other.csv"), "one --data and field=value; got several"),
        (("--suite", "icl", "examples"), "must be field=value, like examples=50; got examples"),
        (("examples=3",), "no --suite was given; got examples=3"),
    ],
)
def test_what_a_suite_cannot_do_is_a_sentence(saved, labelled, arguments, message):
    refused = invoke(saved, "--data", labelled, *arguments)
    assert refused.exit_code == 1
    assert message in refused.output.replace("\n", " ")

"""fourfold evaluate: what it says and writes."""

from __future__ import annotations

import json

import pytest
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


def test_a_tokenizer_of_another_model_is_refused(saved, tmp_path):
    config = FourfoldConfig(
        hidden_size=16, num_attention_heads=1, layer_types=["atpm"], vocab_size=100
    )
    FourfoldForCausalLM(config).save_pretrained(saved)
    (tmp_path / "data.txt").write_text("some text")
    refused = invoke(saved, "--data", tmp_path / "data.txt")
    assert refused.exit_code == 1
    assert "The tokenizer has 259 entries and the model 100" in refused.output

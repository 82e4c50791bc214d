"""A run by a recipe: what it keeps, and what it says when something is wrong."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import torch
import yaml
from runs import start, write_recipe
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer
from typer.testing import CliRunner

from fourfold.cli import app
from fourfold.models.matching import count_parameters
from fourfold.training.log import Log, read_log
from fourfold.training.recipe import read_recipe
from fourfold.training.trainer import LOG_COLUMNS


def invoke(*arguments):
    return CliRunner().invoke(app, ["train", *map(str, arguments)])


def run(recipe, out):
    process = start(recipe, out)
    process.join()
    assert process.exitcode == 0


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    run(write_recipe(folder, steps=60, learning_rate=0.01), folder / "out")
    return folder


def test_a_run_leaves_a_model_that_transformers_loads(finished):
    out = finished / "out"
    model = AutoModelForCausalLM.from_pretrained(out / "model")
    tokenizer = AutoTokenizer.from_pretrained(out / "model")
    ids = tokenizer(["memory key"], return_tensors="pt").input_ids
    result = json.loads((out / "result.json").read_text())
    assert model(ids, labels=ids).loss.item() < 5.5  # below ln 259, that of a model of nothing
    assert result["parameters"] == model.num_parameters()
    assert result["tokens"] == 60 * 4 * 16
    weights = load_file(out / "checkpoints" / "step-00000060" / "model.safetensors")
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, weights[name])


def test_the_log_holds_every_step_and_the_loss_falls(finished):
    rows = read_log(finished / "out" / "log.csv")
    assert [int(row["step"]) for row in rows] == list(range(1, 61))
    assert tuple(rows[0]) == ("step", *LOG_COLUMNS)
    assert float(rows[-1]["loss"]) < float(rows[0]["loss"]) - 1
    assert [int(row["step"]) for row in read_log(finished / "out" / "validation.csv")] == [50, 60]


def test_the_kept_recipe_makes_the_same_run(finished):
    assert read_recipe(finished / "out" / "recipe.yaml") == read_recipe(finished / "recipe.yaml")


@pytest.mark.parametrize("memory", ["window", "document", "stream"])
@pytest.mark.parametrize("layer", ["attention", "lstm"])
def test_every_memory_trains_with_any_reset_checkpointed_or_not(layer, memory, tmp_path):
    losses = []
    for checkpointing in (False, True):
        recipe = write_recipe(
            tmp_path, steps=3, memory=memory, gradient_checkpointing=checkpointing
        )
        content = yaml.safe_load(recipe.read_text())
        content["model"]["layer"] = layer
        recipe.write_text(yaml.safe_dump(content))
        out = tmp_path / str(checkpointing)
        run(recipe, out)
        losses.append([float(row["loss"]) for row in read_log(out / "log.csv")])
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)


def test_half_precision_learns_too(tmp_path):
    run(
        write_recipe(tmp_path, steps=60, learning_rate=0.01, precision="bfloat16"), tmp_path / "out"
    )
    rows = read_log(tmp_path / "out" / "log.csv")
    assert float(rows[-1]["loss"]) < float(rows[0]["loss"]) - 1


def test_a_loss_that_is_no_number_stops_the_run_and_spares_what_was_saved(tmp_path):
    recipe = write_recipe(tmp_path, steps=30, learning_rate=1e30, warmup_steps=2)
    command = [sys.executable, "-m", "fourfold", "train", str(recipe), "--out", str(tmp_path / "a")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "became nan at step" in done.stderr
    assert "smaller training.learning_rate" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "a" / "model").exists()


def test_what_a_stopped_run_wrote_after_its_checkpoint_is_written_anew(tmp_path):
    path = tmp_path / "log.csv"
    with closing(Log(path, ("loss",), step=0)) as log:
        for step in range(1, 6):
            log.write(step=step, loss=0.1 * step)
    path.write_text(path.read_text() + "6,0.")  # cut off by a kill
    with closing(Log(path, ("loss",), step=3)) as log:
        assert log.last["step"] == "3"
        log.write(step=4, loss=1e-320)
    rows = read_log(path)
    assert [row["step"] for row in rows] == ["1", "2", "3", "4"]
    assert [float(row["loss"]) for row in rows[2:]] == [0.1 * 3, 1e-320]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (["training.stepz=3"], "training has no field 'stepz'; .* Did you mean 'steps'"),
        (["training.steps"], "must be field=value"),
        (["training.tokens=5"], "give either steps or tokens"),
        (["training.memory=all"], "memory: Input should be 'window', 'document' or 'stream'"),
        (["model.layer=atmp"], "got 'atmp'. Did you mean 'atpm'"),
        (["model.fields.hidden_sizes=3"], "got 'hidden_sizes'. Did you mean 'hidden_size'"),
        (["model.parameters=100"], "100 parameters are too few"),
        (["data.dataset={name: x}"], "give either train .* or dataset"),
        (["data.train=nowhere"], "nowhere does not exist"),
        (["tokenizer=no/such/folder"], "no/such/folder"),
        (["trackers=[tensorbord]"], "got 'tensorbord'. Did you mean 'tensorboard'"),
    ],
)
def test_a_recipe_that_cannot_be_run_is_refused_with_a_sentence(changes, sentence, tmp_path):
    recipe = write_recipe(tmp_path)
    refused = invoke(recipe, "--out", tmp_path / "out", *changes)
    assert refused.exit_code == 1, refused.output
    assert re.search(sentence, refused.output.replace("\n", " ")), refused.output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("tiny-cpu", 500_240), ("5m-cpu", 5_001_440), ("200m-fineweb", 200_003_456)],
)
def test_the_recipes_can_be_read_and_rivals_have_their_size(name, parameters):
    recipe = read_recipe(Path(__file__).parents[2] / "recipes" / f"{name}.yaml")
    size = {"bytes": 259, "runs/language/tokenizer": 4096, "gpt2": 50_257}[recipe.tokenizer]
    assert count_parameters(recipe.model.configuration(size)) == parameters
    for layer in ("gated_deltanet", "attention", "comba", "lstm"):
        entry = recipe.model.model_copy(update={"layer": layer})
        assert abs(count_parameters(entry.configuration(size)) / parameters - 1) < 0.02

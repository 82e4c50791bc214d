"""A run by a recipe: what it keeps, and what it says when something is wrong."""

from __future__ import annotations

import json
import math
import re
import resource
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
import torch
import yaml
from runs import start, stream_recipe, write_recipe
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer
from typer.testing import CliRunner

from fourfold import ByteTokenizer
from fourfold.cli import app
from fourfold.data.prepare import prepare
from fourfold.data.store_order import StoreOrder
from fourfold.evaluation.language import evaluate_text
from fourfold.files import lock
from fourfold.models.matching import count_parameters
from fourfold.ops.pointwise import IGNORED
from fourfold.training.checkpoint import Checkpoints
from fourfold.training.events import Listener
from fourfold.training.log import Log, read_log
from fourfold.training.recipe import TrainingEntry, read_recipe
from fourfold.training.trainer import LOG_COLUMNS, Trainer
from fourfold.training.window_loss import window_loss


def invoke(*arguments):
    return CliRunner().invoke(app, ["train", *map(str, arguments)])


def run(recipe, out):
    process = start(recipe, out)
    process.join()
    assert process.exitcode == 0


def train_by_command(recipe, out, largest_file=None):
    def limit():
        if largest_file is not None:  # what writes more meets a full disk
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))

    command = [sys.executable, "-m", "fourfold", "train", str(recipe), "--out", str(out)]
    return subprocess.run(command, capture_output=True, text=True, preexec_fn=limit)


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
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id
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
            tmp_path,
            layers=(layer, layer),
            steps=3,
            memory=memory,
            gradient_checkpointing=checkpointing,
        )
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
    done = train_by_command(recipe, tmp_path / "a")
    assert done.returncode == 1
    assert "became nan at step" in done.stderr
    assert "smaller training.learning_rate" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "a" / "model").exists()


def test_validation_reads_all_of_a_short_text_and_nothing_twice(tmp_path):
    recipe = write_recipe(
        tmp_path, steps=2, sequence_length=300, memory="stream", learning_rate=0.01
    )
    content = yaml.safe_load(recipe.read_text())
    content["evaluation"]["tokens"] = 10_000
    recipe.write_text(yaml.safe_dump(content))
    run(recipe, tmp_path / "out")
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "out" / "model")
    data = read_recipe(recipe).data
    store = prepare(data, ByteTokenizer(), seed=0, shuffle=True).validation
    assert store.total_tokens < 4 * 300
    order = StoreOrder(store, seed=0, shuffle=False, epochs=1)
    score = evaluate_text(model, order, memory="stream", length=300, lanes=4)
    assert result["validation_loss"] == pytest.approx(score.nats, abs=1e-5)
    assert result["validation_bits_per_byte"] == pytest.approx(score.bits_per_byte, abs=1e-5)


def test_only_one_run_at_a_time_in_a_folder(tmp_path):
    recipe, out = write_recipe(tmp_path), tmp_path / "out"
    out.mkdir()
    with open(out / "lock", "wb") as file:
        assert lock(file.fileno(), wait=False)
        refused = train_by_command(recipe, out)
    assert refused.returncode == 1
    assert f"Another process is training in {out}" in refused.stderr
    assert [path.name for path in out.iterdir()] == ["lock"]
    assert train_by_command(recipe, out).returncode == 0


def test_a_run_whose_model_found_no_room_is_finished_later(tmp_path):
    recipe, out = write_recipe(tmp_path), tmp_path / "out"
    run(recipe, out)
    weights = load_file(out / "model" / "model.safetensors")
    (out / "result.json").unlink()  # as if it had been killed just before
    full = train_by_command(recipe, out, largest_file=10_000)
    assert full.returncode == 1
    assert f"The model cannot be written to {out / 'model'}" in full.stderr
    assert "Traceback" not in full.stderr
    assert train_by_command(recipe, out).returncode == 0
    again = load_file(out / "model" / "model.safetensors")
    assert all(torch.equal(weight, again[name]) for name, weight in weights.items())
    assert not [*out.glob(".*")]


def test_a_log_that_finds_no_room_says_so(tmp_path):
    log = Log(tmp_path / "log.csv", ("loss",), step=0)
    log.close()
    log._file = open("/dev/full", "w")  # noqa: SIM115  closed with the log
    with pytest.raises(OSError, match=r"log\.csv cannot be written: No space left on device"):
        log.write(step=1, loss=0.5)
    log.close()


def test_the_log_is_on_the_disk_before_the_checkpoint(tmp_path, monkeypatch):
    done = []
    sync, write = Log.sync, Checkpoints.write
    monkeypatch.setattr(Log, "sync", lambda log: done.append(log.path.name) or sync(log))
    monkeypatch.setattr(
        Checkpoints, "write", lambda *each: done.append("checkpoint") or write(*each)
    )
    Trainer(read_recipe(write_recipe(tmp_path, steps=2)), tmp_path / "out").run()
    assert done == ["log.csv", "validation.csv", "checkpoint"]


@pytest.mark.parametrize(("tokens", "batch"), [(150, 8), (700, 2)])
def test_validation_predicts_as_many_tokens_as_the_recipe_says(
    tmp_path, monkeypatch, tokens, batch
):
    (tmp_path / "held.txt").write_text("of many lanes it fills but one; " * 40)
    recipe = write_recipe(tmp_path, steps=1, batch_size=batch)
    content = yaml.safe_load(recipe.read_text())
    content["data"]["validation"] = str(tmp_path / "held.txt")
    content["evaluation"]["tokens"] = tokens
    recipe.write_text(yaml.safe_dump(content))
    trainer = Trainer(read_recipe(recipe), tmp_path / "out")
    windows = []
    monkeypatch.setattr(
        "fourfold.training.trainer.window_loss",
        lambda model, window, cache: windows.append(window) or window_loss(model, window, cache),
    )
    loss, bits = trainer.validate()
    predicted = sum(int((window.targets != IGNORED).sum()) for window in windows)
    size = sum(float(window.bytes) for window in windows)
    assert predicted == tokens
    assert size == pytest.approx(tokens * 1280 / 1281)  # a text of 1,280 bytes and its end
    assert bits == pytest.approx(loss * predicted / size / math.log(2))
    monkeypatch.undo()
    assert trainer.run()["validation_tokens"] == tokens


def test_bad_records_of_a_stream_are_told_and_kept_with_the_result(tmp_path):
    done = train_by_command(stream_recipe(tmp_path, steps=3), tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Left out: 4 bad records.") == 2  # to validate with, and to train on
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    counts = {"bad": 4, "empty": 3}
    assert result["left_out"] == {"prepared": counts, "streamed": counts}


@pytest.mark.parametrize(
    ("options", "largest_file", "said"),
    [
        ({"learning_rate": 1e30, "warmup_steps": 2}, None, "became nan at step"),
        ({}, 10_000, "The checkpoint of step 7 cannot be written"),
    ],
)
def test_bad_records_are_told_however_a_run_ends(tmp_path, options, largest_file, said):
    recipe = stream_recipe(tmp_path, steps=30, **options)
    done = train_by_command(recipe, tmp_path / "out", largest_file)
    assert done.returncode == 1
    assert said in done.stderr
    assert done.stdout.count("Left out: 4 bad records.") == 2


def test_bad_records_of_files_are_kept_with_the_result(tmp_path):
    recipe = write_recipe(tmp_path, steps=1)
    (tmp_path / "text" / "bad.jsonl").write_text("{\n" + '{"text": ""}\n' * 2)
    run(recipe, tmp_path / "out")
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["left_out"]["prepared"] == {"bad": 1, "empty": 2}


class KilledError(Exception):
    """A run that ends in the midst."""


def test_a_stream_is_gone_on_with_bit_by_bit_however_far_it_was_read_ahead(tmp_path):
    weights = []
    for ahead, killed in ((0, False), (3, True)):
        recipe = stream_recipe(
            tmp_path / str(ahead),
            steps=12,
            checkpoints={"every": 3, "keep": 1},
            data={"prefetch": ahead},
        )
        out = tmp_path / str(ahead) / "out"

        def stop(update):
            if update.step == 8:
                raise KilledError

        if killed:
            with pytest.raises(KilledError):
                Trainer(read_recipe(recipe), out).run(Listener(updated=stop))
            assert "prefetch" not in [thread.name for thread in threading.enumerate()]
            assert Checkpoints(out / "checkpoints", keep=1).steps() == [6]
        Trainer(read_recipe(recipe), out).run()
        assert "prefetch" not in [thread.name for thread in threading.enumerate()]
        log = [row["loss"] for row in read_log(out / "log.csv")]
        weights.append((log, load_file(out / "model" / "model.safetensors")))
    (log, one), (other_log, other) = weights
    assert log == other_log
    assert all(torch.equal(weight, other[name]) for name, weight in one.items())


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
        (["training.steps=yes"], "training.steps: must be a number; got true"),
        (["training.learning_rate=.inf"], "learning_rate: Input should be a finite number"),
        (["model.fields.hidden_size=many"], "hidden_size must be of type int; got 'many'"),
        (["model.fields.expand_v=on"], "expand_v must be of type float; got True"),
        (["model.fields.eos_token_id=3"], "leave eos_token_id alone"),
        (["tokenizer=no/such/folder"], "no/such/folder"),
        (["trackers=[tensorbord]"], "got 'tensorbord'. Did you mean 'tensorboard'"),
        (["trackers=tensorbord"], "got 'tensorbord'. Did you mean 'tensorboard'"),
        (["training.warmup_steps=20"], "must be less than the 20 steps of the run, .*; got 20"),
        (["training.steps=1"], "warmup_steps must be less than the 1 steps"),
    ],
)
def test_a_recipe_that_cannot_be_run_is_refused_with_a_sentence(changes, sentence, tmp_path):
    recipe = write_recipe(tmp_path)
    refused = invoke(recipe, "--out", tmp_path / "out", *changes)
    assert refused.exit_code == 1, refused.output
    assert re.search(sentence, refused.output.replace("\n", " ")), refused.output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("num_attention_heads=0", "num_attention_heads must be at least 1; got 0"),
        ("num_key_value_heads=3", "num_kv_heads must divide num_heads = 1; got 3"),
    ],
)
def test_a_model_that_cannot_be_is_refused_before_any_text_is_read(change, sentence, tmp_path):
    recipe = write_recipe(tmp_path, layers=("attention",))
    refused = invoke(recipe, "--out", tmp_path / "out", f"model.fields.{change}")
    assert refused.exit_code == 1
    assert sentence in refused.output
    assert not (tmp_path / "tokens").exists()


@pytest.mark.parametrize(
    ("length", "warmup"),
    [
        ({"steps": 2000}, 100),
        ({"steps": 300}, 30),
        ({"steps": 5}, 0),
        ({"tokens": 200 * 16 * 512}, 20),
        ({"steps": 5, "warmup_steps": 4}, 4),
        ({"steps": 1, "warmup_steps": 0}, 0),
    ],
)
def test_the_warm_up_ends_within_the_run(length, warmup):
    training = TrainingEntry(**length)
    assert training.warmup_steps == warmup
    assert TrainingEntry(**training.model_dump()) == training


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

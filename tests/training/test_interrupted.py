"""Stopped at any moment, or robbed of a file, a run goes on and says what is missing."""

from __future__ import annotations

import json
import re
import resource
import signal
import time

import pytest
from runs import CONTEXT, start, write_recipe
from typer.testing import CliRunner

import fourfold.cli.train
from fourfold.cli import app
from fourfold.training.events import Listener, Stopped
from fourfold.training.log import read_log
from fourfold.training.recipe import read_recipe
from fourfold.training.trainer import Trainer


def outcome(out):
    log = [row | {"seconds": ""} for row in read_log(out / "log.csv")]
    return log, read_log(out / "validation.csv")


def finish(recipe, out):
    process = start(recipe, out)
    process.join()
    assert process.exitcode == 0
    return outcome(out)


def train_and_interrupt(recipe, out, moment, step, validations):
    """Ctrl-C when ``moment`` is told of ``step``; what was validated until then is as given."""
    validated, stopped = [], None

    def updated(update):
        if moment == "updated" and update.step == step:
            signal.raise_signal(signal.SIGINT)

    def told(bits):
        validated.append(bits)
        if moment == "validated" and 2 * len(validated) == step:
            signal.raise_signal(signal.SIGINT)

    try:
        Trainer(read_recipe(recipe), out).run(Listener(updated=updated, validated=told))
    except Stopped as error:
        stopped = error.step
    assert (stopped, len(validated)) == (step, validations)


@pytest.mark.parametrize(
    ("moment", "step", "validations"),
    [("updated", 4, 1), ("validated", 4, 2), ("updated", 5, 2), ("updated", 6, 2)],
)
def test_who_asks_to_stop_waits_for_no_validation_and_loses_none(
    moment, step, validations, tmp_path
):
    recipe, out = write_recipe(tmp_path, steps=6, evaluate=2), tmp_path / "out"
    wanted = finish(recipe, tmp_path / "undisturbed")
    process = CONTEXT.Process(
        target=train_and_interrupt, args=(recipe, out, moment, step, validations)
    )
    process.start()
    process.join()
    assert process.exitcode == 0
    assert finish(recipe, out) == wanted


@pytest.mark.parametrize("processes", ["1", "2"])
def test_ctrl_c_while_the_text_is_prepared_says_how_to_go_on(tmp_path, monkeypatch, processes):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    recipe = write_recipe(tmp_path)
    monkeypatch.setenv("WORLD_SIZE", processes)
    monkeypatch.setattr(fourfold.cli.train, "Trainer", interrupted)
    command = ["train", str(recipe)]
    monkeypatch.setattr("sys.argv", ["fourfold", *command])
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 130
    assert "Nothing is lost" in done.output
    again = "with 2 processes" if processes == "2" else f"fourfold train {recipe}"
    assert f"To go on: {'the same command again, ' * (processes == '2')}{again}" in done.output
    monkeypatch.setenv("RANK", "1")
    assert CliRunner().invoke(app, command).output == ""


@pytest.fixture
def stopped(tmp_path):
    """A run of six steps that goes on after the third."""
    recipe, out = write_recipe(tmp_path, steps=6, every=3, evaluate=2), tmp_path / "out"
    wanted = finish(recipe, out)
    (out / "result.json").unlink()
    for path in (out / "checkpoints" / "step-00000006").iterdir():
        path.unlink()
    (out / "checkpoints" / "step-00000006").rmdir()
    return recipe, out, wanted


def go_on(recipe, out):
    return CliRunner().invoke(app, ["train", str(recipe), "--out", str(out)])


def test_a_run_that_goes_on_over_a_damaged_checkpoint_says_so_and_ends_the_same(stopped):
    recipe, out, wanted = stopped
    damaged = out / "checkpoints" / "step-00000005"
    damaged.mkdir()
    (damaged / "checkpoint.json").write_text("{}")
    done = go_on(recipe, out)
    assert done.exit_code == 0, done.output
    assert re.search(r"step-00000005 is damaged \(.*\) and is left out", done.output)
    assert "Going on after step 3" in done.output
    assert outcome(out) == wanted
    assert not damaged.exists()


def test_a_lost_log_is_told_of_and_seconds_go_on(stopped):
    recipe, out, wanted = stopped
    place = out / "checkpoints" / "step-00000003" / "checkpoint.json"
    content = json.loads(place.read_text())
    assert 0 < content["seconds"]["updates"] < content["seconds"]["whole"]
    content["seconds"] = {"updates": 1000.0, "whole": 2000.0}
    place.write_text(json.dumps(content))
    (out / "log.csv").unlink()
    done = go_on(recipe, out)
    assert done.exit_code == 0, done.output
    assert f"{out / 'log.csv'} does not reach to step 3" in done.output
    assert outcome(out) == (wanted[0][3:], wanted[1])
    assert float(read_log(out / "log.csv")[0]["seconds"]) > 1000
    result = json.loads((out / "result.json").read_text())
    assert 1000 < result["update_seconds"] < 1001 < 2000 < result["wall_seconds"]
    assert result["train_tokens_per_second"] == result["tokens"] / result["update_seconds"]


def test_a_log_that_is_lost_after_the_last_step_costs_its_figure_alone(tmp_path):
    recipe, out = write_recipe(tmp_path, steps=3), tmp_path / "out"
    finish(recipe, out)
    for name in ("result.json", "log.csv", "validation.csv"):
        (out / name).unlink()
    done = go_on(recipe, out)
    assert done.exit_code == 0, done.output
    result = json.loads((out / "result.json").read_text())
    assert result["training_loss"] is None
    assert result["validation_loss"] > 0
    assert result["tokens"] == 3 * 4 * 16


@pytest.mark.parametrize(
    "change", [lambda text: text.replace("gradient_norm", "norm"), lambda text: text + "x" * 40]
)
def test_a_log_of_other_columns_is_refused_and_left_as_it_is(stopped, change):
    recipe, out, _ = stopped
    path = out / "log.csv"
    path.write_text(change(path.read_text().replace("1,64", "one,64")))
    before = path.read_text()
    done = go_on(recipe, out)
    assert done.exit_code == 1
    assert f"{path} cannot be gone on with: it must have the columns step, tokens" in done.output
    assert path.read_text() == before


def train_on_a_full_disk(recipe, out, largest):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    trainer = Trainer(read_recipe(recipe), out)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
    with pytest.raises(OSError, match=r"recipe\.yaml cannot be written: .*Make room") as refused:
        trainer.run()
    assert "Errno" not in str(refused.value)


def test_a_disk_that_is_full_from_the_start_is_told_of(tmp_path):
    recipe = write_recipe(tmp_path)
    process = CONTEXT.Process(target=train_on_a_full_disk, args=(recipe, tmp_path / "out", 100))
    process.start()
    process.join()
    assert process.exitcode == 0


def test_the_whole_time_has_what_is_no_update_too(tmp_path, monkeypatch):
    validate = Trainer.validate
    monkeypatch.setattr(Trainer, "validate", lambda run: time.sleep(0.3) or validate(run))
    out = tmp_path / "out"
    result = Trainer(read_recipe(write_recipe(tmp_path, steps=2)), out).run()
    assert result["update_seconds"] == float(read_log(out / "log.csv")[-1]["seconds"])
    assert result["wall_seconds"] > result["update_seconds"] + 0.3

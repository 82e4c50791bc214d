"""A run that is killed again and again ends as one that nobody disturbed."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time

import pytest
import torch
from runs import CONTEXT, start, train, write_recipe
from safetensors.torch import load_file
from typer.testing import CliRunner

from fourfold.cli import app
from fourfold.training.checkpoint import Checkpoints
from fourfold.training.log import read_log

STEPS = 12
KILLS = 5
"""Of each kind of run; twenty in all."""

KINDS = {
    "document": {"memory": "document"},
    "accumulated": {"memory": "document", "accumulation": 2},
    "window": {"memory": "window", "accumulation": 2},
    # The long memory of a mosaic draws its delay while it trains.
    "stream, random": {"memory": "stream", "layers": ("mosaic", "atpm")},
}
STARTS = ["recipe.yaml", "log.csv", "validation.csv", "checkpoint.json", "step-"]
"""What a run that starts brings to its name, in this order."""


def outcome(out):
    """Weights, and the logs without how long it took."""
    weights = load_file(out / "model" / "model.safetensors")
    log = [{k: v for k, v in row.items() if k != "seconds"} for row in read_log(out / "log.csv")]
    return weights, log, read_log(out / "validation.csv")


def assert_same(one, other):
    for name, weight in one[0].items():
        assert torch.equal(weight, other[0][name]), name
    assert one[1] == other[1]
    assert one[2] == other[2]


def finish(recipe, out):
    process = start(recipe, out)
    process.join()
    assert process.exitcode == 0
    return outcome(out)


@pytest.fixture(scope="module", params=KINDS)
def recipe(request, tmp_path_factory):
    return write_recipe(
        tmp_path_factory.mktemp("killed"), steps=STEPS, every=3, evaluate=4, **KINDS[request.param]
    )


@pytest.fixture(scope="module")
def undisturbed(recipe):
    finish(recipe, recipe.parent / "first")  # which turns the text into tokens
    began = time.monotonic()
    wanted = finish(recipe, recipe.parent / "undisturbed")
    return wanted, time.monotonic() - began


def test_kills_at_random_moments_change_nothing(recipe, undisturbed):
    wanted, seconds = undisturbed
    moments, kills, number = random.Random(0), 0, 0
    while kills < KILLS:
        out, number = recipe.parent / f"killed-{number}", number + 1
        finished = False
        while not finished and kills < KILLS:
            process = start(recipe, out)
            # Wherever it is: at its start, going back to a checkpoint, training, or at its end.
            process.join(moments.uniform(0, 1.1) * seconds)
            process.kill()
            process.join()
            finished = process.exitcode == 0
            assert finished or process.exitcode == -signal.SIGKILL
            kills += not finished
        assert_same(wanted, outcome(out) if finished else finish(recipe, out))


def train_and_die(recipe, out, place, after):
    """Train up to the first file that is brought to the disk or to its name and is called so."""

    def dying(operation, name_of):
        def run(*arguments):
            if place not in name_of(*arguments):
                return operation(*arguments)
            if after:
                operation(*arguments)
            return os.kill(os.getpid(), signal.SIGKILL)

        return run

    os.rename = dying(os.rename, lambda source, target: os.path.basename(target))
    os.replace = dying(os.replace, lambda source, target: os.path.basename(target))
    train(recipe, out)


def test_kills_at_every_file_that_is_written_change_nothing(tmp_path):
    recipe = write_recipe(tmp_path, steps=STEPS, every=3, evaluate=4, **KINDS["stream, random"])
    wanted, out = finish(recipe, tmp_path / "undisturbed"), tmp_path / "killed"
    for place in [*STARTS, *STARTS, "model", "result.json"]:  # at first without a checkpoint
        for after in (False, True):
            process = CONTEXT.Process(target=train_and_die, args=(recipe, out, place, after))
            process.start()
            process.join()
            assert process.exitcode == -signal.SIGKILL, place
    assert_same(wanted, finish(recipe, out))


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    """A recipe that can be met while it trains, and what comes out of it."""
    recipe = write_recipe(tmp_path_factory.mktemp("long"), steps=100)
    return recipe, finish(recipe, recipe.parent / "undisturbed")


def test_ctrl_c_saves_and_says_how_to_go_on(long):
    recipe, wanted = long
    out = recipe.parent / "interrupted"
    command = [sys.executable, "-m", "fourfold", "train", str(recipe), "--out", str(out)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    while len(read_log(out / "log.csv")) < 10 and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    shown, _ = process.communicate()
    assert process.returncode == 130, shown
    step = int(re.search(r"Stopped after step ([\d,]+)", shown)[1].replace(",", ""))
    assert f"fourfold train {recipe} --out {out}" in shown
    assert Checkpoints(out / "checkpoints", keep=2).steps()[-1] == step
    assert len(read_log(out / "log.csv")) == step
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert f"Going on after step {step:,}" in done.stdout
    assert_same(wanted, outcome(out))


def test_a_finished_run_is_not_done_again_and_one_of_other_settings_is_refused(long):
    recipe, _ = long
    out = recipe.parent / "undisturbed"
    written = (out / "result.json").stat().st_mtime_ns
    command = ["train", str(recipe), "--out", str(out)]
    again = CliRunner().invoke(app, command)
    assert again.exit_code == 0, again.output
    assert (out / "result.json").stat().st_mtime_ns == written
    other = CliRunner().invoke(app, [*command, "training.seed=5"])
    assert other.exit_code == 1
    assert "is of other settings (different: training.seed)" in other.output

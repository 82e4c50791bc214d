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
from runs import start, write_recipe
from safetensors.torch import load_file
from typer.testing import CliRunner

from fourfold.cli import app
from fourfold.training.checkpoint import Checkpoints
from fourfold.training.log import read_log

STEPS = 450
KILLS = 20


def outcome(out):
    """Weights, and the log without how long it took."""
    weights = load_file(out / "model" / "model.safetensors")
    log = [{k: v for k, v in row.items() if k != "seconds"} for row in read_log(out / "log.csv")]
    return weights, log, read_log(out / "validation.csv")


def assert_same(one, other):
    for name, weight in one[0].items():
        assert torch.equal(weight, other[0][name]), name
    assert one[1] == other[1]
    assert one[2] == other[2]


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    return write_recipe(tmp_path_factory.mktemp("killed"), steps=STEPS)


@pytest.fixture(scope="module")
def undisturbed(recipe):
    out = recipe.parent / "undisturbed"
    process = start(recipe, out)
    process.join()
    assert process.exitcode == 0
    return outcome(out)


def test_twenty_kills_at_random_moments_change_nothing(recipe, undisturbed):
    out, moments, reached = recipe.parent / "killed", random.Random(0), []
    kept = Checkpoints(out / "checkpoints", keep=2)
    for _ in range(KILLS):
        process = start(recipe, out)
        # At a random step, and at a random moment of it or of the checkpoint behind it; how long
        # that takes is the machine's affair.
        step = max(kept.steps(), default=0) + moments.randint(1, 16)
        while len(read_log(out / "log.csv")) < step and process.is_alive():
            time.sleep(0.002)
        time.sleep(moments.uniform(0, 0.02))
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        assert process.exitcode == -signal.SIGKILL, "it was through before it was killed"
        reached.append(len(read_log(out / "log.csv")))
    assert max(reached) > 60  # else no kill met a run that had gone on
    process = start(recipe, out)
    process.join()
    assert process.exitcode == 0
    assert_same(undisturbed, outcome(out))


def test_ctrl_c_saves_and_says_how_to_go_on(recipe, undisturbed):
    out = recipe.parent / "interrupted"
    command = [sys.executable, "-m", "fourfold", "train", str(recipe), "--out", str(out)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    while len(read_log(out / "log.csv")) < 30 and process.poll() is None:
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
    assert_same(undisturbed, outcome(out))


def test_a_finished_run_is_not_done_again_and_one_of_other_settings_is_refused(recipe, undisturbed):
    out = recipe.parent / "undisturbed"
    written = (out / "result.json").stat().st_mtime_ns
    command = ["train", str(recipe), "--out", str(out)]
    again = CliRunner().invoke(app, command)
    assert again.exit_code == 0, again.output
    assert (out / "result.json").stat().st_mtime_ns == written
    other = CliRunner().invoke(app, [*command, "training.seed=5"])
    assert other.exit_code == 1
    assert "is of other settings (different: training.seed)" in other.output

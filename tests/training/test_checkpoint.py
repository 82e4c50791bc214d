"""Checkpoints: whole or not there, of this run or refused."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fourfold.models import FourfoldConfig
from fourfold.training.checkpoint import Checkpoint, Checkpoints

RUN = {"model": {"hidden_size": 16}, "training": {"steps": 9, "seed": 0}}


def checkpoint(step, **changes):
    content = {
        "run": RUN,
        "seconds": {"updates": 0.5 * step, "whole": float(step)},
        "model": {"weight": torch.full((2, 3), float(step))},
        "optimizer": {"step/weight": torch.tensor(float(step))},
        "tensors": {"layers.0.memory": torch.ones(1)},
        "position": {"lanes": [step]},
    }
    return Checkpoint(step=step, **(content | changes))


@pytest.fixture
def kept(tmp_path):
    return Checkpoints(tmp_path / "run" / "checkpoints", keep=2)


def test_the_newest_comes_back_as_it_was(kept):
    assert kept.latest(RUN) is None
    for step in (1, 2, 10):
        kept.write(checkpoint(step))
    found, wanted = kept.latest(RUN), checkpoint(10)
    assert (found.step, found.run, found.position) == (wanted.step, RUN, wanted.position)
    assert found.seconds == {"updates": 5.0, "whole": 10.0}
    for name in ("model", "optimizer", "tensors"):
        assert getattr(found, name).keys() == getattr(wanted, name).keys()
        for key, tensor in getattr(wanted, name).items():
            assert torch.equal(getattr(found, name)[key], tensor)


def test_only_the_latest_are_kept(kept):
    for step in range(1, 6):
        kept.write(checkpoint(step))
    assert kept.steps() == [4, 5]


def test_a_step_that_is_there_already_is_replaced(kept):
    kept.write(checkpoint(3))
    kept.write(checkpoint(3, position={"lanes": "new"}))
    assert kept.latest(RUN).position == {"lanes": "new"}


def test_a_run_of_other_settings_is_refused_and_says_what_differs(kept):
    kept.write(checkpoint(3))
    other = {"model": {"hidden_size": 32}, "training": {"steps": 9, "seed": 0}, "text": "x"}
    with pytest.raises(ValueError, match=r"other settings \(different: model.hidden_size, text\)"):
        kept.latest(other)


def test_a_field_that_came_later_is_as_it_was_unless_it_is_set(kept):
    now = RUN | {"model": FourfoldConfig(hidden_size=16).identity()}
    earlier = {name: value for name, value in now["model"].items() if name != "conv_size"}
    kept.write(checkpoint(3, run=RUN | {"model": earlier}))
    assert kept.latest(now).step == 3
    with pytest.raises(ValueError, match=r"\(different: model.conv_size\)"):
        kept.latest(RUN | {"model": now["model"] | {"conv_size": 2}})


def damage(path, how):
    content = path.read_bytes()
    path.unlink()
    if how == "short":
        path.write_bytes(content[:-3])
    elif how == "garbled":
        path.write_bytes(b"\xff" * len(content))
    elif how == "overwritten":  # within a tensor or a number, as a failing disk may leave it
        path.write_bytes(content[:-9] + bytes(byte ^ 1 for byte in content[-9:]))


NAMES = ["checkpoint.json", "model.safetensors", "optimizer.safetensors", "process-0.json"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("how", ["missing", "short", "garbled", "overwritten"])
def test_a_damaged_checkpoint_is_left_out_with_a_sentence_and_the_one_before_is_taken(
    kept, name, how
):
    said = []
    kept.write(checkpoint(3))
    kept.write(checkpoint(4))
    damage(kept.path(4) / name, how)
    assert kept.latest(RUN, said.append).step == 3
    assert re.fullmatch(
        r"The checkpoint .*step-00000004 is damaged \(.+\) and is left out\.", said[0]
    )
    kept.write(checkpoint(4))
    assert kept.latest(RUN, said.append).step == 4
    assert len(said) == 1


def test_where_no_checkpoint_is_whole_that_is_said(kept):
    for step in (3, 4):
        kept.write(checkpoint(step))
        damage(kept.path(step) / "model.safetensors", "overwritten")
    with pytest.raises(ValueError, match=r"No checkpoint in .* is whole .* Remove the folder"):
        kept.latest(RUN)


def test_a_damaged_checkpoint_does_not_outlive_a_whole_one(tmp_path):
    kept = Checkpoints(tmp_path, keep=2)
    for step in (3, 4):
        kept.write(checkpoint(step))
    damage(kept.path(4) / "model.safetensors", "overwritten")
    assert kept.latest(RUN).step == 3
    kept.write(checkpoint(5))
    assert kept.steps() == [3, 5]


def test_what_is_damaged_for_one_process_is_damaged_for_all(tmp_path):
    elsewhere = iter([True, False])
    kept = Checkpoints(tmp_path, keep=2, anywhere=lambda here: here or next(elsewhere))
    kept.write(checkpoint(3))
    kept.write(checkpoint(4))
    said = []
    assert kept.latest(RUN, said.append).step == 3
    assert "another process says how" in said[0]


def test_a_checkpoint_of_another_format_is_refused(kept):
    kept.write(checkpoint(3))
    path = kept.path(3) / "checkpoint.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 1}))
    with pytest.raises(ValueError, match=r"of format 1; this version of fourfold reads format 2"):
        kept.latest(RUN)


@pytest.mark.parametrize("mask", [0o022, 0o007])
def test_all_files_have_the_rights_that_the_user_gives_new_ones(kept, mask):
    before = os.umask(mask)
    try:
        kept.write(checkpoint(3))
    finally:
        os.umask(before)
    rights = {path.name: path.stat().st_mode & 0o777 for path in kept.path(3).iterdir()}
    assert len(rights) == 5
    assert set(rights.values()) == {0o666 & ~mask}


def test_what_a_kill_left_behind_is_cleared_away(kept):
    left = kept.folder / ".step-00000002.tmp"
    left.mkdir(parents=True)
    (left / "model.safetensors").write_bytes(b"half")
    assert kept.latest(RUN) is None
    kept.write(checkpoint(3))
    assert [path.name for path in kept.folder.iterdir()] == ["step-00000003"]


FULL = """
import resource, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import torch
from test_checkpoint import checkpoint
from fourfold.training.checkpoint import Checkpoints
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
kept = Checkpoints(Path(sys.argv[2]), keep=2)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    kept.write(checkpoint(4, model={"weight": torch.ones(100_000)}))
except OSError as error:
    print("refused:", error)
"""


def test_a_full_disk_leaves_the_checkpoint_before(kept):
    # No file may grow over 100,000 bytes in that process: what writes there meets a full disk.
    kept.write(checkpoint(3))
    here = str(Path(__file__).parent)
    done = subprocess.run(
        [sys.executable, "-c", FULL, here, str(kept.folder)], capture_output=True, text=True
    )
    assert "refused: model.safetensors cannot be written" in done.stdout, done.stderr
    assert [path.name for path in kept.folder.iterdir()] == ["step-00000003"]
    assert json.dumps(kept.latest(RUN).position) == '{"lanes": [3]}'


def test_a_run_begun_before_the_last_share_was_a_field_goes_on(kept):
    earlier = RUN | {"training": {"steps": 9}}
    kept.write(checkpoint(3, run=earlier))
    now = RUN | {"training": {"steps": 9, "final_share": 0.1}}
    assert kept.latest(now).step == 3
    with pytest.raises(ValueError, match=r"\(different: training.final_share\)"):
        kept.latest(RUN | {"training": {"steps": 9, "final_share": 0.01}})

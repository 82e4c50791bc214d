"""Checkpoints: whole or not there, of this run or refused."""

from __future__ import annotations

import json
import shutil
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


@pytest.mark.parametrize("name", ["checkpoint.json", "model.safetensors", "process-0.json"])
@pytest.mark.parametrize("damage", ["missing", "short", "garbled"])
def test_a_damaged_checkpoint_is_named_and_the_one_before_is_there(kept, name, damage):
    kept.write(checkpoint(3))
    kept.write(checkpoint(4))
    path = kept.path(4) / name
    content = path.read_bytes()
    path.unlink()
    if damage != "missing":
        path.write_bytes(content[:-3] if damage == "short" else b"\xff" * len(content))
    with pytest.raises(ValueError, match=r"step-00000004 is damaged .* the one before"):
        kept.latest(RUN)
    shutil.rmtree(kept.path(4))
    assert kept.latest(RUN).step == 3


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

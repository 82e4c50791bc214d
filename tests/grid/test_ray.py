"""Running a grid on Ray: real clusters, whose workers are killed."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
import yaml

from fourfold.grid import Grid, Schedule, run_cell
from fourfold.grid.cell import finished
from fourfold.grid.ray_cluster import run_on_ray
from fourfold.results import provenance

STEPS = 150
NOT_REPEATED = {"train_tokens_per_second", "wall_seconds", *provenance()}


@pytest.fixture(scope="module")
def cluster():
    """Two workers, for this process alone."""
    ray = pytest.importorskip("ray", reason="needs Ray: pip install 'fourfold[ray]'")
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
    )
    yield ray
    ray.shutdown()


def settings(steps, **changes):
    """Of a tiny grid, as its file holds them."""
    return {
        "tasks": {"kv_recall": {"loads": {"iid": [1, 3], "ood": [4, 4], "stress": [6, 6]}}},
        "models": {"Gated DeltaNet": {"layer": "gated_deltanet"}, "LSTM": {"layer": "lstm"}},
        "parameters": 8000,
        "layers": 1,
        "fields": {"hidden_size": 16, "num_attention_heads": 1},
        "rates": [0.01, 0.003],
        "training": {"steps": steps, "batch_size": 8, "warmup_steps": min(5, steps // 2)},
        "evaluation": {"examples": 4, "validation_examples": 4, "curve_points": 2},
    } | changes


def workers(driver=None):
    """Which cell each worker of the cluster of a process is running, by the worker's id.

    Ray writes the name of its task into the title of a worker. Other clusters may run cells of the
    same name; only descendants of ``driver``, by default this process, are its workers.
    """
    if sys.platform != "linux":
        pytest.skip("finds workers by /proc")
    parents, titles = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            title = (folder / "cmdline").read_bytes().strip(b"\0").decode(errors="replace")
            status = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        parents[int(folder.name)] = int(status[1])
        if title.startswith("ray::kv_recall"):
            titles[int(folder.name)] = title.removeprefix("ray::")

    def ours(process):
        while process not in (0, driver or os.getpid()):
            process = parents.get(process, 0)
        return process != 0

    return {process: title for process, title in titles.items() if ours(process)}


def kill_worker_of(cell):
    """Kill the worker that runs ``cell``; False if it does no longer."""
    for process, title in workers().items():
        if title == str(cell):
            os.kill(process, signal.SIGSTOP)
            # Now it cannot go on to the next cell between a look and the kill.
            still = workers().get(process) == str(cell)
            os.kill(process, signal.SIGKILL if still else signal.SIGCONT)
            return still
    return False


def gone(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def wait_until(condition, seconds=180):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "It has not come to pass."
        time.sleep(0.1)


@pytest.mark.slow
def test_with_a_worker_killed_every_cell_finishes_once_and_as_it_would_here(
    cluster, tmp_path, record_property
):
    began = time.monotonic()
    models = {
        "Gated DeltaNet": {"layer": "gated_deltanet"},
        "LSTM": {"layer": "lstm", "seeds": [0, 1]},
    }
    grid = Grid(**settings(STEPS, models=models))
    schedule, events, killed, side_by_side = Schedule(grid), [], [], set()

    def on_event(event):
        events.append(event)
        side_by_side.add(len(workers()))
        midway = event.kind == "step" and event.step.step < STEPS
        if midway and not killed and len(workers()) == 2 and kill_worker_of(event.cell):
            killed.append(event.cell)

    assert run_on_ray(schedule, tmp_path, on_event=on_event) == []
    record_property("ray: seconds for five cells, a worker killed", round(time.monotonic() - began))

    assert max(side_by_side) == 2
    (victim,) = killed
    cells = schedule.known()
    assert len(cells) == schedule.total() == 5
    told = Counter((event.cell, event.kind) for event in events if event.kind != "step")
    assert told == Counter([(cell, "finished") for cell in cells] + [(victim, "lost")])
    ends = [event.kind for event in events if event.cell == victim and event.kind != "step"]
    assert ends == ["lost", "finished"]

    files = {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()}
    assert files == {cell.path for cell in cells}
    for cell in cells:
        result = json.loads((tmp_path / cell.path).read_text())
        assert result["command"] == provenance()["command"]
        assert result["machine"]["threads"] == 1
        here = json.loads(json.dumps(run_cell(grid, cell, tmp_path, lambda step: None)))
        for key in here.keys() - NOT_REPEATED:
            assert result[key] == here[key], (cell, key)
        assert result.keys() == here.keys()

    resumed = Schedule(grid, results={cell: finished(grid, cell, tmp_path) for cell in cells})
    events.clear()
    assert run_on_ray(resumed, tmp_path, on_event=events.append) == []
    assert events == []


@pytest.mark.slow
def test_a_cell_whose_workers_keep_dying_is_given_up(cluster, tmp_path):
    models = {"LSTM": {"layer": "lstm"}, "same rate": {"layer": "lstm", "rate_of": "LSTM"}}
    schedule, events = Schedule(Grid(**settings(2000, models=models, rates=[0.01]))), []

    def on_event(event):
        if event.kind == "step":
            kill_worker_of(event.cell)
        else:
            events.append(event)

    (cell,) = schedule.open()
    assert run_on_ray(schedule, tmp_path, on_event=on_event) == [cell]
    assert [event.kind for event in events] == ["lost", "lost", "lost", "failed"]
    assert {event.cell for event in events} == {cell}
    assert str(cell) in events[0].message
    assert schedule.results == {}
    assert list(tmp_path.iterdir()) == []


def test_an_exception_in_a_cell_is_told_at_once_and_others_go_on(cluster, tmp_path):
    (tmp_path / "models" / "cells" / "kv_recall").mkdir(parents=True)
    (tmp_path / "models" / "cells" / "kv_recall" / "lstm").write_text("no folder")
    schedule, events = Schedule(Grid(**settings(1, rates=[0.01], keep_models=True))), []
    other, cell = schedule.open()
    assert run_on_ray(schedule, tmp_path, on_event=events.append) == [cell]
    told = {event.cell: event for event in events if event.kind != "step"}
    assert len(told) == len([event for event in events if event.kind != "step"]) == 2
    assert (told[cell].kind, told[other].kind) == ("failed", "finished")
    assert told[cell].message.startswith(f"{cell}: NotADirectoryError: ")
    assert (tmp_path / "models" / other.path.with_suffix("") / "model.safetensors").exists()


def test_an_interrupt_cancels_what_runs_but_leaves_a_cluster_that_was_there(cluster, tmp_path):
    running = []

    def on_event(event):
        running.extend(workers())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_on_ray(Schedule(Grid(**settings(1_000_000))), tmp_path, on_event=on_event)
    assert running
    wait_until(lambda: not workers() and all(map(gone, running)))
    assert cluster.is_initialized()


@pytest.mark.slow
def test_ctrl_c_ends_what_runs_and_the_cluster_that_was_started(tmp_path):
    pytest.importorskip("ray", reason="needs Ray: pip install 'fourfold[ray]'")
    (tmp_path / "grid.yaml").write_text(yaml.safe_dump(settings(1_000_000)))
    command = [sys.executable, "-m", "fourfold", "tasks", "run", "grid.yaml", "--executor", "ray"]
    environment = os.environ | {"RAY_ADDRESS": "local", "PYTHONFAULTHANDLER": "1"}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, start_new_session=True
    ) as driver:
        try:
            wait_until(lambda: workers(driver.pid))
            running = workers(driver.pid)
            os.killpg(driver.pid, signal.SIGINT)  # a terminal sends it to the whole group
            assert driver.wait(timeout=60) != 0
        except subprocess.TimeoutExpired:
            driver.send_signal(signal.SIGABRT)  # prints where its threads are
            driver.wait()
            raise
        finally:
            driver.kill()
    wait_until(lambda: all(map(gone, running)), seconds=30)
    assert not list(tmp_path.rglob("*.json"))


def test_without_ray_a_sentence_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ValueError, match=r'not installed: pip install "fourfold\[ray\]"\.$'):
        run_on_ray(Schedule(Grid(**settings(1))), tmp_path, on_event=print)

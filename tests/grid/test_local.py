"""Running a grid on this machine: any order, any number of workers, killed and gone on with."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml
from typer.testing import CliRunner

from fourfold.cli import app
from fourfold.grid import Cell, Grid, Schedule, run_cell
from fourfold.grid.cell import finished, write_cell
from fourfold.grid.gather import gather
from fourfold.grid.ledger import DEATHS
from fourfold.grid.local import run_locally
from fourfold.results import provenance

TIMES = {"train_tokens_per_second", "wall_seconds", *provenance()}


def settings(**changes):
    return {
        "tasks": {"kv_recall": {"loads": {"iid": [1, 3], "ood": [4, 4], "stress": [6, 6]}}},
        "models": {
            "ATPM": {"layer": "atpm"},
            "ATPM, ρ = 0": {
                "layer": "atpm",
                "rate_of": "ATPM",
                "seeds": [0],
                "fields": {"atpm_rho": 0.0},
            },
        },
        "parameters": 8000,
        "layers": 1,
        "fields": {"hidden_size": 16, "num_attention_heads": 1},
        "rates": [0.01, 0.003],
        "seeds": [0, 1],
        "training": {"steps": 6, "batch_size": 4, "warmup_steps": 2},
        "evaluation": {"examples": 6, "validation_examples": 6, "curve_points": 2},
    } | changes


def measured(result):
    """A result without what may differ between two runs of one cell."""
    return json.loads(json.dumps({k: v for k, v in result.items() if k not in TIMES}))


def files(folder):
    return {
        str(path.relative_to(folder)): measured(json.loads(path.read_text()))
        for path in folder.rglob("*.json")
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The grid run by one worker, undisturbed."""
    folder, events = tmp_path_factory.mktemp("whole"), []
    schedule = Schedule(Grid(**settings()))
    assert run_locally(schedule, folder, workers=1, on_event=events.append) == []
    assert not schedule.open()
    done = [event.cell for event in events if event.kind == "finished"]
    assert len(done) == len(set(done)) == schedule.total() == 4
    return folder


def test_a_result_holds_all_that_made_it(whole):
    results = files(whole)
    assert set(results) == {
        "cells/kv_recall/atpm/rate-0.01-seed-0.json",
        "cells/kv_recall/atpm/rate-0.003-seed-0.json",
        next(name for name in results if name.endswith("seed-1.json")),
        next(name for name in results if "atpm-rho-0" in name),
    }
    path = whole / "cells/kv_recall/atpm/rate-0.01-seed-0.json"
    result = json.loads(path.read_text())
    assert result.keys() > TIMES
    assert result["settings"]["configuration"]["layer_types"] == ["atpm"]
    assert abs(result["parameters"] / 8000 - 1) < 0.02
    assert [point["step"] for point in result["curve"]] == [3, 6]
    assert result["tests"]["stress"]["by_load"].keys() == {"6"}


def test_a_cell_is_the_same_alone_and_in_any_order(whole):
    grid = Grid(**settings())
    schedule = Schedule(grid)
    gather(schedule, whole)
    torch.rand(7)  # whatever was drawn before
    for cell in reversed(schedule.known()):
        path = str(cell.path)
        assert measured(run_cell(grid, cell, whole, lambda step: None)) == files(whole)[path]


def test_two_workers_find_what_one_finds(whole, tmp_path):
    schedule = Schedule(Grid(**settings()))
    assert run_locally(schedule, tmp_path, workers=2, on_event=lambda event: None) == []
    assert files(tmp_path) == files(whole)


def test_a_cell_whose_process_is_killed_is_run_again(whole, tmp_path):
    schedule = Schedule(Grid(**settings()))
    events = []

    def kill_once(event):
        events.append(event.kind)
        if event.kind == "step" and "lost" not in events and events.count("step") == 1:
            os.kill(children()[0], signal.SIGKILL)

    assert run_locally(schedule, tmp_path, workers=1, on_event=kill_once) == []
    assert events.count("lost") == 1
    assert events.count("finished") == 4
    assert files(tmp_path) == files(whole)


def children():
    import multiprocessing

    return [process.pid for process in multiprocessing.active_children()]


def test_a_cell_that_kills_every_process_is_given_up_and_the_others_are_run(tmp_path):
    schedule = Schedule(Grid(**settings(seeds=[0])))
    victim = schedule.known()[0]
    kinds = []

    def kill(event):
        kinds.append(event.kind)
        if event.kind == "step" and event.cell == victim:
            os.kill(children()[0], signal.SIGKILL)

    assert run_locally(schedule, tmp_path, workers=1, on_event=kill) == [victim]
    assert kinds.count("lost") == DEATHS
    assert kinds.count("failed") == 1
    assert len(files(tmp_path)) == 1  # the other rate; without both, no rate is chosen


def test_a_whole_run_that_is_killed_goes_on_where_it_stopped(whole, tmp_path):
    config = tmp_path / "grid.yaml"
    config.write_text(yaml.safe_dump(settings(), allow_unicode=True))
    out = tmp_path / "out"
    command = [sys.executable, "-m", "fourfold", "tasks", "run", str(config), "--out", str(out)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    running = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while not list(out.rglob("*.json")):
        assert running.poll() is None
        time.sleep(0.02)
    running.send_signal(signal.SIGKILL)
    running.wait()
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*.json")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"{len(before)} of 4 cells are finished already" in done.stdout
    # In a log, where no bar shows, every cell has its line.
    assert done.stdout.count(": finished") == 4 - len(before)
    assert files(out) == files(whole)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert not list(out.rglob("*.tmp"))


def test_shards_together_are_the_whole_and_never_overlap():
    grid = Grid(
        **settings(
            tasks=["kv_recall", "copy", "forget"],
            models={
                "A": {"layer": "atpm"},
                "B": {"layer": "lstm"},
                "C": {"layer": "comba", "rate_of": "A"},
            },
        )
    )

    def run(shard):
        """All cells, with made-up results."""
        schedule = Schedule(grid, shard)
        while schedule.open():
            cell = schedule.open()[0]
            schedule.results[cell] = {
                "diverged_at": None,
                "validation": {"exact_match": cell.rate, "cross_entropy": 1.0},
            }
        assert len(schedule.results) == schedule.total()
        return set(schedule.results)

    from fourfold.grid import Shard

    whole = run(Shard())
    assert len(whole) == 3 * (2 * 2 + 2 * 1 + 2)
    parts = [run(Shard.parse(f"{index}/4")) for index in range(1, 5)]
    assert sum(map(len, parts)) == len(whole)
    assert set.union(*parts) == whole
    for text in ("0/2", "3/2", "1", "a/b", "1/2/3"):
        with pytest.raises(ValueError, match="shard must be I/N"):
            Shard.parse(text)


def test_the_rate_is_the_best_on_validation_and_a_diverged_run_never_wins():
    schedule = Schedule(Grid(**settings(rates=[0.001, 0.01, 0.1])))
    scores = {0.001: (0.5, 2.0), 0.01: (0.5, 1.0), 0.1: None}
    for cell in schedule.open():
        assert schedule.best_rate("kv_recall", "ATPM") is None
        score = scores[cell.rate]
        schedule.results[cell] = (
            {"diverged_at": 5}
            if score is None
            else {
                "diverged_at": None,
                "validation": {"exact_match": score[0], "cross_entropy": score[1]},
            }
        )
    assert schedule.best_rate("kv_recall", "ATPM") == 0.01
    assert schedule.best_rate("kv_recall", "ATPM, ρ = 0") == 0.01
    assert schedule.open() == [
        Cell("kv_recall", "ATPM", 0.01, 1),
        Cell("kv_recall", "ATPM, ρ = 0", 0.01, 0),
    ]


def test_a_training_that_diverges_is_a_result(tmp_path):
    grid = Grid(**settings(rates=[1e30]))
    cell = Schedule(grid).open()[0]
    result = run_cell(grid, cell, tmp_path, lambda step: None)
    assert 1 < result["diverged_at"] <= 6
    assert "tests" not in result
    write_cell(cell, tmp_path, result)
    assert finished(grid, cell, tmp_path) is not None


def test_a_result_of_other_settings_is_refused_and_left_alone(whole):
    grid = Grid(**settings(training={"steps": 7, "batch_size": 4, "warmup_steps": 2}))
    before = files(whole)
    with pytest.raises(ValueError, match=r"other settings \(different: training\)"):
        gather(Schedule(grid), whole)
    assert files(whole) == before


def test_a_warm_up_that_is_not_given_is_a_tenth_of_the_run_at_most():
    lengths = {20: 2, 1000: 100, 3000: 150}
    for steps, warm in lengths.items():
        assert Grid(**settings(training={"steps": steps})).training.warmup_steps == warm


def test_a_result_from_before_a_field_existed_still_counts(whole, tmp_path):
    grid = Grid(**settings())
    cell = Schedule(grid).open()[0]
    result = json.loads((whole / cell.path).read_text())
    assert result["settings"]["configuration"].pop("atpm_rho") is None
    write_cell(cell, tmp_path, result)
    assert finished(grid, cell, tmp_path) is not None
    result["settings"]["configuration"]["atpm_rho"] = 0.25
    write_cell(cell, tmp_path, result)
    with pytest.raises(ValueError, match="different: configuration"):
        finished(grid, cell, tmp_path)


def test_trained_models_are_kept_if_asked_for(tmp_path):
    from fourfold import FourfoldForCausalLM

    grid = Grid(**settings(keep_models=True))
    cell = replace(Schedule(grid).open()[0], seed=5)
    run_cell(grid, cell, tmp_path, lambda step: None)
    (folder,) = {path.parent for path in tmp_path.rglob("model.safetensors")}
    assert FourfoldForCausalLM.from_pretrained(folder).num_parameters() > 7800


def invoke(*words):
    return CliRunner().invoke(app, ["tasks", *words])


def test_the_list_names_every_task_and_examples_can_be_read():
    assert "pointer_chase" in invoke().output
    shown = invoke("show", "overwrite", "--split", "ood", "--count", "2")
    assert shown.exit_code == 0
    assert "load 16" in shown.output
    assert "[current; stale: v" in shown.output
    assert "of rebind: load" in invoke("show", "mixed_all", "--count", "9").output
    assert "after token" in invoke("show", "mad_recall", "--count", "1").output


def test_sizes_are_printed_with_the_state(tmp_path):
    config = tmp_path / "grid.yaml"
    config.write_text(yaml.safe_dump(settings(), allow_unicode=True))
    shown = invoke("sizes", str(config))
    assert shown.exit_code == 0, shown.output
    assert "ATPM, ρ" in shown.output
    assert "bytes" in shown.output


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (dict(tasks=["kv_recal"]), "Did you mean 'kv_recall'"),
        (dict(tasks={"copy": {"spam": 3}}), "copy has no field 'spam'; .* Did you mean 'span'"),
        (dict(model={}), "has no field 'model'; .* Did you mean 'models'"),
        (dict(models={"A": {"layer": "atpmm"}}), "Did you mean 'atpm'"),
        (
            dict(models={"A": {"layer": "atpm", "rate_off": "B"}}),
            "models.A has no field 'rate_off'; .* Did you mean 'rate_of'",
        ),
        (
            dict(models={"A": {"layer": "atpm"}, "C": {"layer": "atpm", "rate_of": "a"}}),
            "rate_of of model 'C' must name",
        ),
        (dict(fields={"hidden_sizes": 3}), "got 'hidden_sizes'. Did you mean 'hidden_size'"),
        (dict(fields={"intermediate_size": 8}), "must leave intermediate_size alone"),
        (dict(fields={"conv_size": 1.5}), "conv_size must be of type int; got 1.5"),
        (dict(fields={"atpm_rho": "high"}), "atpm_rho must be of type .* got 'high'"),
        (dict(fields={"decay_times": 3}), "decay_times must be of type .* got 3"),
        (dict(fields={"num_attention_heads": True}), "num_attention_heads must be of type int"),
        (dict(fields={"hidden_size": 0}), "hidden_size must be at least 1"),
        (
            dict(models={"A b": {"layer": "atpm"}, "a-B": {"layer": "lstm"}}),
            "names of models must differ .* got 'a-B' and 'A b'",
        ),
        (dict(models={"記": {"layer": "atpm"}}), "names of models must differ .* got '記'"),
        (dict(parameters=300), "300 parameters are too few"),
        (dict(rates=[]), "rates: Tuple should have at least 1 item"),
        (dict(rates=[0.1, -1]), "rates must be positive"),
        (
            dict(training={"steps": 9, "warmup_steps": 9}),
            "warmup_steps must be less than the 9 steps of the run",
        ),
        (
            dict(
                tasks={
                    "kv_recall": {"loads": {"iid": [1, 20], "ood": [40, 40], "stress": [80, 80]}}
                }
            ),
            "kv_recall at load 80 needs 80 different symbols of the family 'key'",
        ),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is_trained(changes, sentence, tmp_path):
    config = tmp_path / "grid.yaml"
    config.write_text(yaml.safe_dump(settings() | changes))
    refused = invoke("run", str(config), "--out", str(tmp_path / "out"))
    assert refused.exit_code == 1
    import re

    assert re.search(sentence, refused.output), refused.output
    assert not (tmp_path / "out").exists()


def test_files_that_are_no_grid_are_refused_with_a_sentence(tmp_path):
    path = tmp_path / "grid.yaml"
    for content, sentence in (
        ("[1, 2", "is no YAML file"),
        ("- a", "must hold a mapping"),
        ("!!python/object/apply:os.system [ls]", "is no YAML file"),
    ):
        path.write_text(content)
        refused = invoke("run", str(path))
        assert refused.exit_code == 1
        assert sentence in " ".join(refused.output.split())
    assert "No such file" in invoke("run", str(Path("none.yaml"))).output
    assert "split must be one of" in invoke("show", "copy", "--split", "odd").output
    assert "executor must be local or ray" in invoke("run", "x", "--executor", "slurm").output

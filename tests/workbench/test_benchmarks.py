"""The benchmark commands: what is measured, in which order, and what is written. Never how fast."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from fourfold.benchmarks.inputs import random_inputs
from fourfold.benchmarks.memory import peak_bytes
from fourfold.benchmarks.ops import (
    MODES,
    OpsOptions,
    all_contestants,
    time_shape,
)
from fourfold.benchmarks.others import flash_linear_attention, titans
from fourfold.benchmarks.processes import PRESENT, Child, compare_versions
from fourfold.benchmarks.recurrences import ATPM_FUSED, TRANSFORMERS
from fourfold.benchmarks.shapes import SHAPES, Shape, parse_shape
from fourfold.benchmarks.step import step_table
from fourfold.benchmarks.summary import length_ratio, summarise
from fourfold.benchmarks.timing import Timing, alternate
from fourfold.cli import app

TINY = Shape(1, 8, 1, 4, 8)


def invoke(*arguments):
    return CliRunner().invoke(app, ["bench", *(str(argument) for argument in arguments)])


class Clock:
    """Time that passes only when told to."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def takes(self, seconds, log=None, name=""):
        def turn():
            self.now += seconds
            if log is not None:
                log.append(name)

        return turn


def test_contestants_take_turns_after_two_calls_that_do_not_count():
    clock, log = Clock(), []
    turns = {name: clock.takes(1.0, log, name) for name in "ABC"}
    measured = alternate(turns, 3, clock=clock)
    assert "".join(log) == "AABBCC" + "ABC" * 3
    assert measured.timings == {name: Timing((1.0, 1.0, 1.0)) for name in "ABC"}


def test_a_quick_contestant_is_called_until_its_turn_is_long_enough():
    clock, log = Clock(), []
    turns = {"slow": clock.takes(0.25, log, "s"), "quick": clock.takes(0.125, log, "q")}
    measured = alternate(turns, 2, turn_seconds=0.5, clock=clock)
    assert "".join(log) == "ssqq" + "ssqqqq" * 2
    assert measured.timings["quick"].rounds == (0.125, 0.125)


def test_who_is_too_slow_or_fails_is_dropped_with_the_reason():
    clock, log = Clock(), []

    def fails():
        raise RuntimeError("out of memory")

    turns = {"slow": clock.takes(2.0, log, "s"), "fails": fails, "good": clock.takes(1.0)}
    measured = alternate(turns, 2, limit=1.5, clock=clock)
    assert list(measured.timings) == ["good"]
    assert log == ["s"]
    assert "2 s, more than the limit of 1.5 s" in measured.dropped["slow"]
    assert "out of memory" in measured.dropped["fails"]


def test_median_and_quartiles_are_in_milliseconds():
    record = Timing((0.005, 0.001, 0.003, 0.002, 0.004)).record()
    assert record["median_ms"] == pytest.approx(3)
    assert record["quartiles_ms"] == pytest.approx([2, 4])
    assert Timing((0.5,)).quartiles == (0.5, 0.5)


def entry(tokens, ours, theirs):
    """A shape at which both passes take so many milliseconds; None if they were not timed."""

    def row(name, milliseconds):
        timing = None if milliseconds is None else {"median_ms": milliseconds}
        return {"contestant": name, "forward": timing, "forward_backward": timing}

    shape = {"rows": 2, "tokens": tokens, "heads": 1, "address": 4, "columns": 8}
    return {"shape": shape, "rows": [row(ATPM_FUSED, ours), row(TRANSFORMERS, theirs)]}


def test_ratios_follow_from_the_times():
    entries = [entry(64, 1.0, 2.0), entry(2048, 1.0, 8.0), entry(4096, 1.0, 100.0)]
    found = summarise([*entries, entry(65536, 1.0, None)], ["forward"])
    assert [shape["forward"] for shape in found["shapes"]] == [0.5, 0.125, 0.01, None]
    assert found["geometric_mean_up_to_2048_tokens"]["forward"] == pytest.approx(0.25)
    per_token = length_ratio([entry(64, 1.0, 1.0), entry(256, 6.0, 1.0)], ATPM_FUSED, "forward")
    assert per_token == pytest.approx(1.5)

    times = {"A": (Timing((1.0,)), Timing((2.0,))), "B": (Timing((3.0,)), Timing((4.0,)))}
    table = step_table(times)
    assert [row["ratio"] for row in table["models"]] == pytest.approx([2, 4 / 3])
    assert table["sum"]["ratio"] == pytest.approx(6 / 4)


def test_versions_train_in_turn_and_are_compared_by_their_sums():
    log, closed = [], []

    class Fake:
        def __init__(self, source):
            self.source = source.name

        def start(self):
            return {"commit": self.source}

        def step(self):
            log.append(self.source)
            return {"A": 1.0, "B": 2.0} if self.source == "new" else {"A": 4.0, "B": 5.0}

        def close(self):
            closed.append(self.source)

    found = compare_versions(Path("old"), Fake, pairs=2, warmup=1, steps=2, present=Path("new"))
    assert log == ["old", "new"] * 6
    assert sorted(closed) == ["new", "new", "old", "old"]
    assert found["sum_median_ms"] == {"baseline": 9.0, "present": 3.0}
    assert found["ratio"] == found["ratio_of_turns"]["median"] == 3.0
    assert len(found["turns_ms"]["baseline"]) == 4
    assert found["models_median_ms"]["present"] == {"A": 1.0, "B": 2.0}


def test_a_version_trains_in_a_process_of_its_own(tmp_path):
    settings = {"threads": 1, "batch-size": 2, "sequence-length": 8, "seed": 0}
    with pytest.raises(ValueError, match="holds no fourfold"):
        Child(tmp_path, settings)
    child = Child(PRESENT, settings)
    try:
        assert str(tmp_path.anchor) not in str(child.start())  # a result names no path
        first, second = child.step(), child.step()
    finally:
        child.close()
    assert child.process.returncode == 0
    assert list(first) == list(second) == ["ATPM", "Gated DeltaNet", "Transformer", "LSTM"]


@pytest.mark.parametrize("contestant", all_contestants("cpu"), ids=lambda c: c.name)
def test_contestants_read_alike_and_give_every_leaf_its_gradient(contestant):
    if contestant.missing:
        pytest.skip(contestant.missing)
    prepared = contestant.prepare(random_inputs(TINY, seed=0), TINY)
    y, gradients = prepared.read(), prepared.forward_backward()
    assert y.shape == prepared.dy.shape == (1, 8, 1, 8)
    for leaf, gradient in zip(prepared.leaves, gradients, strict=True):
        # Eight tokens are less than a chunk of titans, which then does not use all of its weights.
        assert gradient is not None or contestant.name.startswith("titans")
        assert gradient is None or gradient.shape == leaf.shape


@pytest.mark.parametrize("rule", ["ATPM", "Gated DeltaNet"])
def test_contestants_of_one_rule_compute_the_same(rule):
    """Otherwise their times would say nothing; transformers scales the query by 1/√S."""
    inputs = random_inputs(TINY, seed=0)
    read = {
        c.name: c.read(inputs, None, True)
        for c in all_contestants("cpu")
        if getattr(c, "rule", None) == rule and c.missing is None
    }
    expected, state = read.pop(f"{rule} chunked")
    for name, (y, final) in read.items():
        scale = 2 if name == TRANSFORMERS else 1
        torch.testing.assert_close(scale * y, expected, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(final, state, rtol=1e-4, atol=1e-5)


def test_a_contestant_that_cannot_run_is_listed_with_its_reason(monkeypatch):
    monkeypatch.setitem(sys.modules, "titans_pytorch", None)  # as if it were not installed
    assert titans().missing == "titans-pytorch is not installed."
    assert "on cpu" in flash_linear_attention("cpu").missing
    options = OpsOptions(rounds=1, device="cpu")
    shape = replace(TINY, tokens=4097)
    found = time_shape([titans(), all_contestants("cpu")[-1]], shape, ["forward"], options)
    reasons = {row["contestant"]: row["reason"] for row in found["rows"]}
    assert reasons["titans-pytorch NeuralMemory"] == "titans-pytorch is not installed."
    assert "quadratic in T" in reasons["attention (SDPA)"]
    assert all(row["forward"] is None for row in found["rows"])


def test_peak_memory_counts_what_is_alive_at_once():
    def call():
        first = torch.zeros(1000)  # 4,000 bytes
        second = first + 1
        del first
        return torch.cat([second, torch.zeros(500)])  # 4,000 + 2,000 + 6,000

    assert peak_bytes(call, "cpu") == pytest.approx(12_000, abs=100)


def test_shapes_are_read_and_refused():
    assert parse_shape("64,64,2,32,64") == SHAPES[0]
    for text in ("1,2,3", "1,2,3,4,x", "0,1,1,1,2", "1,1,1,1,1"):
        with pytest.raises(ValueError, match="got"):
            parse_shape(text)


def test_bench_ops_writes_times_memory_and_figure(tmp_path):
    done = invoke("ops", "--quick", "--threads", 1, "--output", tmp_path)
    assert done.exit_code == 0, done.output
    for words in (ATPM_FUSED, "Not available: flash-linear-attention", "geometric mean"):
        assert words in done.output
    result = json.loads((tmp_path / "ops.json").read_text())
    for field in ("command", "commit", "versions", "machine", "device", "seed", "wall_seconds"):
        assert field in result
    names = [contestant["name"] for contestant in result["contestants"]]
    assert len(result["shapes"]) == 2
    for shape in result["shapes"]:
        assert [row["contestant"] for row in shape["rows"]] == names
        for row in shape["rows"]:
            for mode in ("forward", "forward_backward"):
                assert (row[mode] is None) == (row["reason"] is not None)
                assert row[mode] is None or len(row[mode]["rounds_ms"]) == 2
    assert [point["shape"]["tokens"] for point in result["lengths"]] == [16, 32]
    points = {(point["batch"], point["tokens_read"]): point for point in result["decode"]}
    assert list(points) == [(1, 1), (1, 20), (2, 1), (2, 20)]
    for (batch, tokens), point in points.items():
        assert point["memory_bytes"][ATPM_FUSED] == batch * 4 * 8 * 4
        assert point["memory_bytes"]["attention (SDPA)"] == batch * tokens * (4 + 8) * 4
        assert point["step"].keys() | point["reasons"].keys() == set(names)
    assert {entry["contestant"] for entry in result["memory"]} >= {ATPM_FUSED, TRANSFORMERS}
    assert all(entry["beyond_multiple"] > 0 for entry in result["memory"])

    figure = tmp_path / "ops.png"
    drawn = figure.read_bytes()
    assert drawn.startswith(b"\x89PNG")
    figure.unlink()
    assert invoke("figure", tmp_path / "ops.json").exit_code == 0
    assert figure.read_bytes() == drawn


def test_bench_step_writes_models_and_layers(tmp_path):
    done = invoke("step", "--quick", "--threads", 1, "--output", tmp_path)
    assert done.exit_code == 0, done.output
    result = json.loads((tmp_path / "step.json").read_text())
    models = ["ATPM", "Gated DeltaNet", "Transformer", "LSTM"]
    assert [row["model"] for row in result["steps"]["models"]] == models
    assert result["steps"]["sum"]["ratio"] > 0
    assert [row["layer"] for row in result["layers"]["layers"]] == models[:2]
    assert all(row["parameters"] > 0 for row in result["layers"]["layers"])
    assert result["versions_compared"] is None
    for field in ("command", "commit", "versions", "configurations", "seed", "wall_seconds"):
        assert field in result


def test_errors_are_one_sentence(tmp_path):
    (tmp_path / "other.json").write_text("{}")
    for arguments, words in (
        (["ops", "--shapes", "1,2"], "five positive numbers"),
        (["ops", "--modes", "forwards"], "modes must be of"),
        (["ops", "--dtype", "float8"], "dtype must be of"),
        (["ops", "--device", "tpu"], "device must be cpu or cuda"),
        (["figure", tmp_path / "none.json"], "does not exist"),
        (["figure", tmp_path / "other.json"], "is no result of fourfold bench ops"),
    ):
        result = invoke(*arguments)
        assert result.exit_code == 1, result.output
        assert words in result.stderr
        assert result.stderr.count("\n") == 1


def test_options_name_known_modes_only():
    assert OpsOptions().modes == MODES
    with pytest.raises(ValueError, match="modes must be of"):
        OpsOptions(modes=("decode", "sideways"))


@pytest.mark.parametrize("command", [[], ["ops"], ["step"], ["figure"]])
def test_every_command_explains_itself(command):
    assert invoke(*command, "--help").exit_code == 0

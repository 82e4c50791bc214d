"""The training trace: what is read of a run, and how it is drawn."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from fourfold.cli import app
from fourfold.reports.trace import draw_trace, read_runs

HEADER = "step,tokens,loss,bits_per_byte,learning_rate,gradient_norm,seconds\n"


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def write_run(folder, losses, *, validation=None, ending=""):
    folder.mkdir(parents=True)
    rows = [f"{i},{100 * i},{x},{x / 2},0.1,1.0,{i}\n" for i, x in enumerate(losses, start=1)]
    (folder / "log.csv").write_text(HEADER + "".join(rows) + ending)
    if validation is not None:
        lines = [f"{i},{100 * i},{x},{x / 2}\n" for i, x in validation]
        (folder / "validation.csv").write_text("step,tokens,loss,bits_per_byte\n" + "".join(lines))
    return folder


def falling(steps=400, spike=None):
    step = np.arange(1, steps + 1)
    noise = np.random.default_rng(0).standard_normal(steps)
    losses = 2 + 5 * np.exp(-step / (0.02 * steps)) + 0.3 * step**-0.3 + 0.02 * noise
    if spike is not None:
        losses[spike] += 3
    return losses.tolist()


def insets(figure):
    return [inset for panel in figure.axes for inset in panel.child_axes]


def test_a_long_run_has_a_panel_for_its_early_fall_one_for_the_rest_and_an_inset(tmp_path):
    validation = [(200, 2.1), (400, 2.0)]
    runs = read_runs([write_run(tmp_path / "run", falling(), validation=validation)])
    figure = draw_trace(runs)
    upper, lower = figure.axes
    assert upper.get_ylim()[0] == lower.get_ylim()[1]  # no loss falls between them
    assert upper.get_ylim()[1] > max(runs[0].training.loss)
    (inset,) = insets(figure)
    low, high = inset.get_ylim()
    assert high - low < 0.5 * (lower.get_ylim()[1] - lower.get_ylim()[0])
    late = runs[0].smooth()[runs[0].training.tokens >= inset.get_xlim()[0]]
    assert low < late.min() < late.max() < high


def test_an_inset_leaves_a_late_spike_in_sight(tmp_path):
    runs = read_runs([write_run(tmp_path / "run", falling(spike=300))])
    figure = draw_trace(runs)
    (inset,) = insets(figure)
    host = figure.axes[0]
    figure.draw_without_rendering()
    place = host.transData.inverted().transform_bbox(inset.get_window_extent())
    assert not place.x0 <= 30_100 <= place.x1


@pytest.mark.parametrize(
    "losses",
    [[2.0], [3.0, 2.0, 1.0], [2.0] * 50, [0.0] * 3, [1.0, float("nan"), 2.0], falling(12)],
    ids=["one step", "three steps", "constant", "zero", "a loss that is no number", "twelve steps"],
)
def test_no_run_is_too_short_or_too_flat_to_draw(tmp_path, losses):
    run = write_run(tmp_path / "run", losses)
    result = invoke("plot-run", run, "--out", tmp_path / "trace.png")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "trace.png").read_bytes().startswith(b"\x89PNG")


def test_several_runs_share_a_figure_and_each_says_where_it_stands(tmp_path):
    first = write_run(tmp_path / "a" / "run", falling(), validation=[(400, 2.5)])
    second = write_run(tmp_path / "b" / "run", falling(100), validation=[])
    third = write_run(tmp_path / "third", [3.0, 2.0])
    out = tmp_path / "trace.svg"
    result = invoke("plot-run", first, second, third, "--out", out)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert f"{first}: 40,000 tokens" in lines[0]
    assert "(mean of 8 steps), validation 1.2500 bits per byte." in lines[0]
    assert "(mean of 2 steps), not validated." in lines[1]
    assert lines[2] == (
        "third: 200 tokens, loss 2.0000 nats a token (mean of 1 step), not validated."
    )
    assert out.read_text().startswith("<?xml")


def test_a_run_that_goes_on_is_drawn_as_far_as_its_last_whole_line(tmp_path):
    run = write_run(tmp_path / "run", falling(50), ending="51,5100,0.")
    (read,) = read_runs([run])
    assert len(read.training) == 50


def test_the_mean_is_over_the_latest_steps_and_over_few_at_the_start(tmp_path):
    losses = falling(200)
    (run,) = read_runs([write_run(tmp_path / "run", losses)])
    smooth = run.smooth()
    assert run.span == 4
    assert smooth[0] == losses[0]
    assert np.isclose(smooth[10], np.mean(losses[9:11]))
    assert np.isclose(smooth[-1], np.mean(losses[-4:]))


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (None, "holds no log.csv; give the folder of a run"),
        ("", "holds no step yet"),
        (HEADER, "holds no step yet"),
        (HEADER + "1,100,2.", "holds no step yet"),
        ("step,loss\n1,2.0\n", "it lacks 'tokens'"),
        (HEADER + "1,100,much,1,1,1,1\n", "line 2: could not convert string to float: 'much'"),
    ],
)
def test_what_cannot_be_drawn_is_a_sentence(tmp_path, log, words):
    run = tmp_path / "run"
    run.mkdir()
    if log is not None:
        (run / "log.csv").write_text(log)
    result = invoke("plot-run", run, "--out", tmp_path / "trace.png")
    assert result.exit_code == 1
    assert words in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "trace.png").exists()


def test_only_kinds_of_figures_are_written(tmp_path):
    run = write_run(tmp_path / "run", [2.0])
    result = invoke("plot-run", run, "--out", tmp_path / "trace.gif")
    assert result.exit_code == 1
    assert "--out must end with .png, .svg, .pdf" in result.stderr

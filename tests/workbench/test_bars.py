"""Progress bars in a terminal of the usual width."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from fourfold.cli.bars import bars

FIGURES = "2.345 nats/token, 1.234 bits/byte (validation 1.345), 12,345 tokens/s"
NAMES = ["gated_deltanet", "overwrite/gated-deltanet/rate-0.0032-seed-1"]


def line(name, *, remaining, width=80, seconds=40):
    """What is shown half way through 1,000 steps, of which the last two took ``seconds`` each."""
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    progress = bars(remaining=remaining, console=console)
    now = 0.0
    progress.get_time = lambda: now
    number = progress.add_task(name, total=1000, figures=FIGURES)
    for step in (498, 499, 500):
        now += seconds
        progress.update(number, completed=step)
    progress.tasks[0]._get_time = progress.get_time
    console.print(progress.get_renderable())
    return console.file.getvalue()


@pytest.mark.parametrize("width", [80, 60])
@pytest.mark.parametrize("remaining", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_bar_and_time_stay_and_words_are_cut(name, remaining, width):
    shown = line(name, remaining=remaining, width=width)
    assert shown.count("\n") == 1
    assert "━━━━━━━━━━" in shown
    assert "500/1,000" in shown
    assert ("5:33:20" if remaining else "0:02:00") in shown
    assert shown.rstrip().endswith("…")
    assert "2.345" in shown


def test_all_is_shown_where_there_is_room():
    assert FIGURES in line(NAMES[0], remaining=True, width=160)


def test_steps_of_minutes_have_a_time_too():
    assert "50:00:00" in line(NAMES[0], remaining=True, seconds=360)

"""Progress bars of the commands that train."""

from __future__ import annotations

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text

from fourfold.cli.common import console as shared

SPEED_PERIOD = 24 * 3600.0
"""Seconds of which the last steps say how fast it goes; with fewer, slow steps say nothing."""


class Cut(ProgressColumn):
    """A line of a task that is cut where the terminal ends, so that bar and time stay.

    Args:
        name: "description", or a field of the task.
    """

    def __init__(self, name: str) -> None:
        super().__init__(Column(overflow="ellipsis"))
        self.name = name

    def render(self, task: Task) -> Text:
        text = task.description if self.name == "description" else task.fields[self.name]
        return Text(text, no_wrap=True, overflow="ellipsis")


def bars(*, remaining: bool, console: Console = shared) -> Progress:
    """Bars of tasks with a total and a field ``figures``.

    Args:
        remaining: show the time that is left, not that which has gone by.
    """
    time = TimeRemainingColumn if remaining else TimeElapsedColumn
    return Progress(
        Cut("description"),
        BarColumn(bar_width=20, table_column=Column(no_wrap=True, min_width=20)),
        TextColumn("{task.completed:,}/{task.total:,}", table_column=Column(no_wrap=True)),
        time(table_column=Column(no_wrap=True, min_width=7)),
        Cut("figures"),
        console=console,
        speed_estimate_period=SPEED_PERIOD,
    )

"""The report of a grid of memory tasks, drawn from its result files alone."""

from __future__ import annotations

from pathlib import Path

from fourfold.files import write_atomically
from fourfold.grid import Grid
from fourfold.reports.tasks.figures import as_png, plates
from fourfold.reports.tasks.markdown import full_markdown, short_markdown
from fourfold.reports.tasks.page import page
from fourfold.reports.tasks.results import GridResults, read_results

__all__ = ["GridResults", "full_markdown", "read_results", "short_markdown", "write_task_report"]


def write_task_report(grid: Grid, folder: Path) -> Path:
    """Draw ``folder``/report.html and the PNGs in ``folder``/figures.

    Returns:
        where the page lies.

    Raises:
        FileNotFoundError: nothing of ``grid`` is finished in ``folder``.
        ValueError: a result there is of other settings, or is no result file.
    """
    results = read_results(grid, folder)
    figures = folder / "figures"
    figures.mkdir(exist_ok=True)
    for plate in plates(results):
        write_atomically(figures / f"{plate.name}.png", as_png(plate))
    path = folder / "report.html"
    write_atomically(path, page(results).encode())
    return path

"""Figures and tables of what ``measure.py`` measured.

    python results/mosaics/knowledge/figures.py FOLDER

Writes FOLDER/figures/*.png and FOLDER/tables.md from FOLDER/measures, and says what is missing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import fmean
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fourfold.grid.config import read_grid, slug
from fourfold.reports.markdown import markdown_table, spread
from fourfold.reports.tasks.figures import LOOKS
from fourfold.reports.tasks.styles import LineStyle, line_styles

Result = dict[str, Any]

NEARLY = 0.9
"""Of what is gained by the last step."""


class Measures:
    """What was measured, by task and model: one result a seed."""

    def __init__(self, folder: Path) -> None:
        self.grid = read_grid(folder / "grid.yaml")
        self.styles: dict[str, LineStyle] = line_styles(self.grid)
        self._found: dict[tuple[str, str], list[Result]] = {}
        self.missing: list[str] = []
        for task in self.grid.tasks:
            for name in self.grid.models:
                for seed in self.grid.seeds_of(name):
                    path = folder / "measures" / task / slug(name) / f"seed-{seed}.json"
                    if path.exists():
                        result = json.loads(path.read_text(encoding="utf-8"))
                        self._found.setdefault((task, name), []).append(result)
                    else:
                        self.missing.append(f"{task}, {name}, seed {seed}")

    def of(self, task: str) -> Iterable[tuple[str, list[Result]]]:
        """Models that were measured on a task, with their results."""
        return [
            (name, self._found[task, name])
            for name in self.grid.models
            if (task, name) in self._found
        ]


def values(
    results: list[Result], silent: list[str], key: str, of: Callable[[Result], float], **only
):
    """x to the values of all seeds, of rows where ``only`` holds."""
    found: dict[int, list[float]] = {}
    for result in results:
        for row in result["rows"]:
            if row["disabled"] == silent and all(row[name] == want for name, want in only.items()):
                found.setdefault(row[key], []).append(100 * of(row))
    return found


def exact(row: Result) -> float:
    return row["exact_match"]


def draw(
    axes: Axes, style: LineStyle, points: dict[int, list[float]], name: str, *, silent: bool
) -> None:
    """A line through the means and a mark for each seed."""
    if not points:
        return
    looks = style.as_keywords()
    if silent:
        looks |= {"linestyle": (0, (2, 2)), "alpha": 0.6, "markerfacecolor": "white"}
    label = f"{name}, long memory off" if silent else name
    axes.plot(list(points), [fmean(each) for each in points.values()], label=label, **looks)
    for x, each in points.items():
        axes.plot([x] * len(each), each, ".", color=style.colour, markersize=3, alpha=0.5)


def finish(axes: Axes, title: str, x: str, ticks: Iterable[int]) -> None:
    ticks = list(ticks)
    axes.set(title=title, xlabel=x, ylabel="exact match, %", ylim=(-3, 103))
    axes.set_xscale(
        "symlog" if 0 in ticks else "log", base=2, **({"linthresh": 1} if 0 in ticks else {})
    )
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.grid(axis="y", color="#e8e5dc", linewidth=0.8)
    axes.set_axisbelow(True)


def lengths(measures: Measures, figure: Figure) -> None:
    axes = figure.subplots()
    for name, results in measures.of("documents"):
        for silent in ([], ["long"]):
            draw(
                axes,
                measures.styles[name],
                values(results, silent, "times", exact),
                name,
                silent=bool(silent),
            )
    finish(
        axes,
        "A question about one of many documents",
        "times the documents of training",
        (1, 2, 4, 8),
    )


def adapted(results: list[Result], share: float) -> dict[int, list[float]]:
    """Steps at the greatest length to the exact match of all seeds, in percent."""
    found: dict[int, list[float]] = {}
    for result in results:
        for going in result["adaptation"]:
            if going["share"] == share:
                for point in going["points"]:
                    found.setdefault(point["steps"], []).append(100 * exact(point))
    return found


def shares(measures: Measures) -> list[float]:
    """Of the rate of training, at which training went on."""
    return sorted(
        {
            going["share"]
            for _, results in measures.of("documents")
            for result in results
            for going in result["adaptation"]
        }
    )


def adapting(measures: Measures, figure: Figure) -> None:
    found = shares(measures)
    for axes, share in zip(figure.subplots(1, len(found), squeeze=False)[0], found, strict=True):
        ticks: set[int] = set()
        for name, results in measures.of("documents"):
            points = adapted(results, share)
            ticks |= set(points)
            draw(axes, measures.styles[name], points, name, silent=False)
        finish(
            axes,
            f"8 times as many documents, at {share:g} of the rate",
            "further steps there",
            sorted(ticks),
        )


def shots(measures: Measures, figure: Figure) -> None:
    for axes, labels in zip(figure.subplots(1, 2), ("known", "anonymous"), strict=True):
        ticks: set[int] = set()
        for name, results in measures.of("label_map"):
            for silent in ([], ["long"]):
                points = values(results, silent, "shots", exact, labels=labels)
                ticks |= set(points)
                draw(axes, measures.styles[name], points, name, silent=bool(silent))
        finish(axes, f"Labels of {labels} classes", "shots a class", sorted(ticks or {1}))


FIGURES = {"lengths": (lengths, 6.4), "adapting": (adapting, 9.6), "shots": (shots, 9.6)}


def by_column(measures: Measures, task: str, key: str, columns: tuple[int, ...], **only) -> str:
    rows = []
    for name, results in measures.of(task):
        for silent in ([], ["long"]):
            points = values(results, silent, key, exact, **only)
            if points:
                label = f"{name}, long memory off" if silent else name
                rows.append([label, *(spread(points.get(column, [])) for column in columns)])
    return markdown_table([key, *map(str, columns)], rows)


def books(measures: Measures) -> str:
    rows = []
    for name, results in measures.of("closed_book"):
        for silent in ([], ["long"]):
            found = [
                row for result in results for row in result["rows"] if row["disabled"] == silent
            ]
            if found:
                label = f"{name}, long memory off" if silent else name
                parts = (
                    spread([100 * row["parts"][part]["share"] for row in found])
                    for part in ("told", "known")
                )
                rows.append([label, *parts])
    return markdown_table(["", "told", "known"], rows)


def by_steps(measures: Measures, share: float) -> str:
    rows: list[list[str]] = []
    header = [""]
    for name, results in measures.of("documents"):
        points = adapted(results, share)
        header = ["steps", *map(str, points), f"steps to {100 * NEARLY:.0f} % of the gain"]
        rows.append([name, *(spread(each) for each in points.values()), nearly(points)])
    return markdown_table(header, rows)


def nearly(points: dict[int, list[float]]) -> str:
    """The first step at which each seed has most of what it gains by the last one."""
    needed = []
    for curve in zip(*points.values(), strict=True):
        first, last = curve[0], curve[-1]
        if last <= first:
            return "–"
        enough = first + NEARLY * (last - first)
        needed.append(next(s for s, each in zip(points, curve, strict=True) if each >= enough))
    return ", ".join(map(str, sorted(needed)))


def main(folder: Path) -> None:
    measures = Measures(folder)
    (folder / "figures").mkdir(exist_ok=True)
    for name, (drawing, width) in FIGURES.items():
        with rc_context(LOOKS):
            figure = Figure(figsize=(width, 5.2), layout="constrained")
            drawing(measures, figure)
            handles, labels = figure.axes[0].get_legend_handles_labels()
            figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
            figure.savefig(folder / "figures" / f"{name}.png", dpi=150)
    parts = {
        "documents, exact match by times the length of training": by_column(
            measures, "documents", "times", (1, 2, 4, 8)
        ),
        **{
            f"documents at 8 times the length, by steps of further training there at {share:g} of "
            "the rate": by_steps(measures, share)
            for share in shares(measures)
        },
        "closed_book, by what is asked": books(measures),
        "label_map, known classes, by shots": by_column(
            measures, "label_map", "shots", (1, 2, 4, 8, 16, 32), labels="known"
        ),
        "label_map, anonymous classes, by shots": by_column(
            measures, "label_map", "shots", (1, 2, 4, 8, 16, 32), labels="anonymous"
        ),
    }
    text = "\n\n".join(f"{title}\n\n{body}" for title, body in parts.items())
    (folder / "tables.md").write_text(text + "\n", encoding="utf-8")
    for line in measures.missing:
        print("missing:", line)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))

"""Figures and tables of what ``study.py`` found.

    python results/microscope/figures.py FOLDER

Writes FOLDER/figures/*.png and FOLDER/tables.md from FOLDER/study, and says what is missing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fourfold.files import write_atomically
from fourfold.grid.config import read_grid
from fourfold.reports.markdown import markdown_table, spread
from fourfold.reports.style import png
from fourfold.reports.tasks.figures import LOOKS
from fourfold.reports.tasks.styles import LEADERS, MARKERS

Row = dict[str, Any]
Results = dict[str, list[Row]]

NAMES = {
    "rho": "ρ",
    "lambda": "λ",
    "beta_k": "βK",
    "beta_v": "βV",
    "alpha": "α",
    "tau": "‖τ‖",
    "angle": "∠(s, d)",
    "residual_v": "‖r‖ of V",
}
HELD = {"lam": "λ", "rho": "ρ", "beta": "β", "beta_k": "βK", "beta_v": "βV", "alpha": "α"}
PAPER, GREY = "#fbfaf7", "#b9b4a7"
MIXTURE = "mixed_all"


def read_studies(folder: Path) -> tuple[Results, list[str]]:
    """Results of each task, one a seed, and what is missing."""
    grid = read_grid(folder / "grid.yaml")
    found, missing = {}, []
    for task in grid.tasks:
        paths = sorted((folder / "study" / task).rglob("*.json"))
        found[task] = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
        wanted = len(grid.seeds) * len(grid.models)
        if len(paths) < wanted:
            missing.append(f"{task}: {len(paths)} of {wanted}")
    return {task: each for task, each in found.items() if each}, missing


def colour(layer: int) -> str:
    return LEADERS[layer % len(LEADERS)]


def dotted(axes: Axes, dots: Iterable[tuple[float, float, int, int]]) -> None:
    """(x, y, layer, head): colours are layers and marks heads."""
    for x, y, layer, head in dots:
        axes.plot(
            x,
            y + 0.16 * (layer - 0.5),
            MARKERS[head % len(MARKERS)],
            color=colour(layer),
            markersize=4,
            alpha=0.8,
            markeredgewidth=0,
        )


def named(axes: Axes, names: Iterable[str]) -> None:
    labels = list(names)
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.grid(axis="x", color="#e8e5dc", linewidth=0.8)
    axes.set_axisbelow(True)


def legend(figure: Figure, results: Results, grey: str | None) -> None:
    places = {
        (row["layer"], row["head"])
        for each in results.values()
        for result in each
        for row in result["means"]
    }
    entries = [
        Line2D([], [], color=colour(layer), marker=MARKERS[head], linestyle="", markersize=5)
        for layer, head in sorted(places)
    ]
    labels = [f"layer {layer}, head {head}" for layer, head in sorted(places)]
    if grey is not None:
        entries.append(Line2D([], [], color=GREY, linewidth=5))
        labels.append(grey)
    figure.legend(entries, labels, loc="outside lower center", ncols=5, frameon=False)


def band(axes: Axes, y: int, values: list[float]) -> None:
    """What chance gives, from its least to its greatest."""
    if values:
        axes.plot([min(values), max(values)], [y, y], color=GREY, linewidth=7, alpha=0.5, zorder=0)


def known(axes: Axes, each: list[Row], at: str) -> None:
    for y, quantity in enumerate(NAMES):
        rows = [
            row
            for result in each
            for row in result["pairs"]
            if row["quantity"] == quantity and row["at"] == at
        ]
        band(axes, y, [row["null"] for row in rows])
        dotted(axes, ((row["greater"], y, row["layer"], row["head"]) for row in rows))
    named(axes, NAMES.values())
    axes.axvline(0.5, color="#1d2429", linewidth=0.8, zorder=0)
    axes.set(xlim=(-0.03, 1.03))


def pairs(results: Results) -> Figure:
    """Minimal pairs, at the key and behind it."""
    tasks = [
        task for task, each in results.items() if task != MIXTURE and any(r["pairs"] for r in each)
    ]
    figure = Figure(figsize=(max(8.4, 2.5 * len(tasks) + 0.6), 6.6), layout="constrained")
    panels = figure.subplots(2, len(tasks), squeeze=False, sharex=True, sharey=True)
    for column, task in enumerate(tasks):
        for line, at in zip(panels, ("key", "behind it"), strict=True):
            axes = line[column]
            if any(row["at"] == at for result in results[task] for row in result["pairs"]):
                known(axes, results[task], at)
                axes.set_title(f"{task}, {'at the key' if at == 'key' else 'behind the key'}")
                axes.set_xlabel("share of pairs in which it is\ngreater where the key is known")
            else:
                axes.set_axis_off()
    legend(figure, results, "two unknown keys")
    return figure


def stages(results: Results) -> Figure:
    """Contrasts within the mixture, beside those of a model that was not trained."""
    each = results[MIXTURE]
    sides = list(dict.fromkeys(tuple(row["sides"]) for result in each for row in result["stages"]))
    figure = Figure(figsize=(10.4, 6.4), layout="constrained")
    panels = figure.subplots(2, -(-len(sides) // 2), squeeze=False, sharex=True, sharey=True)
    for axes in panels.flat[len(sides) :]:
        axes.set_axis_off()
    for axes, (one, other) in zip(panels.flat, sides, strict=False):
        for y, quantity in enumerate(NAMES):
            own, null = (
                [
                    row
                    for result in each
                    for row in result[key]
                    if row["quantity"] == quantity and tuple(row["sides"]) == (one, other)
                ]
                for key in ("stages", "untrained")
            )
            band(axes, y, [row["auc"] for row in null])
            dotted(axes, ((row["auc"], y, row["layer"], row["head"]) for row in own))
        named(axes, NAMES.values())
        axes.axvline(0.5, color="#1d2429", linewidth=0.8, zorder=0)
        axes.set(xlim=(-0.03, 1.03), title=f"{other} above {one}", xlabel="AUC")
    legend(figure, results, "not trained")
    return figure


def regimes(results: Results) -> Figure:
    """Where each kind of event of the mixture lies in the plane of λ and ρ."""
    each = results[MIXTURE]
    places = sorted({(row["layer"], row["head"]) for row in each[0]["means"]})
    events = [
        event
        for event in dict.fromkeys(row["event"] for row in each[0]["means"])
        if event not in ("task", "read")
    ]
    figure = Figure(figsize=(max(8.4, 2.6 * len(places) + 0.4), 3.8), layout="constrained")
    for axes, place in zip(
        figure.subplots(1, len(places), sharex=True, sharey=True, squeeze=False)[0],
        places,
        strict=True,
    ):
        for number, event in enumerate(events):
            for result in each:
                at = {
                    row["quantity"]: row["mean"]
                    for row in result["means"]
                    if (row["layer"], row["head"], row["event"]) == (*place, event)
                }
                axes.plot(
                    at["lambda"],
                    at["rho"],
                    MARKERS[number % len(MARKERS)],
                    color=LEADERS[number % len(LEADERS)],
                    markerfacecolor=PAPER if number >= len(LEADERS) else None,
                    markersize=5,
                    alpha=0.85,
                )
        axes.set(title=f"layer {place[0]}, head {place[1]}", xlabel="λ", ylabel="ρ")
        axes.set(xlim=(-0.04, 1.04), ylim=(-0.04, 1.04))
        axes.label_outer()
    entries = [
        Line2D(
            [],
            [],
            color=LEADERS[number % len(LEADERS)],
            marker=MARKERS[number % len(MARKERS)],
            markerfacecolor=PAPER if number >= len(LEADERS) else None,
            linestyle="",
        )
        for number in range(len(events))
    ]
    figure.legend(entries, events, loc="outside lower center", ncols=6, frameon=False)
    return figure


def transport(results: Results) -> Figure:
    """How much nearer the destination of a write is than its source to where it will be read."""
    rows = [row for result in results["rebind"] for row in result["transport"]]
    words = list(dict.fromkeys(row["word"] for row in rows))
    titles = {"sign": "move or swap", "from": "first key", "to": "second key", "end": ";"}
    figure = Figure(figsize=(7.6, 3.2), layout="constrained")
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    for axes, key, title in zip(
        panels,
        ("target", "other"),
        ("to the key that the value goes to", "to a key that has nothing to do with it"),
        strict=True,
    ):
        for y, word in enumerate(words):
            dotted(
                axes,
                ((row[key], y, row["layer"], row["head"]) for row in rows if row["word"] == word),
            )
        named(axes, (titles[word] for word in words))
        axes.axvline(0, color="#1d2429", linewidth=0.8)
        axes.set(title=title, xlabel="cos(d, q) − cos(s, q)")
    legend(figure, results, None)
    return figure


def what_is_held(row: Row) -> str:
    held = ", ".join(
        f"{HELD[name]} at its mean" if value == "mean" else f"{HELD[name]} = {value:g}"
        for name, value in row["held"].items()
    )
    return f"{held}, at {row['when']} alone" if row["when"] else held


def ablation(results: Results) -> Figure:
    """Exact match lost where the whole model is held."""
    figure = Figure(figsize=(max(8.4, 2.2 * len(results) + 1.6), 4.6), layout="constrained")
    names = list(
        dict.fromkeys(
            what_is_held(row)
            for each in results.values()
            for result in each
            for row in result["ablation"]
            if row["by"] == "model" and row["held"]
        )
    )
    for axes, (task, each) in zip(
        figure.subplots(1, len(results), squeeze=False, sharey=True)[0],
        results.items(),
        strict=True,
    ):
        for result in each:
            for row in result["ablation"]:
                if row["by"] != "model" or not row["held"]:
                    continue
                y = names.index(what_is_held(row)) + (0.14 if row["split"] == "ood" else -0.14)
                low, high = row["interval"]
                tint = LEADERS[1] if row["split"] == "ood" else LEADERS[0]
                axes.plot([100 * low, 100 * high], [y, y], color=tint, linewidth=1, alpha=0.5)
                axes.plot(100 * row["loss"], y, "o", color=tint, markersize=4, alpha=0.8)
        named(axes, names)
        axes.axvline(0, color="#1d2429", linewidth=0.8)
        axes.set(title=task, xlim=(-8, 105), xlabel="points of exact match lost")
    entries = [Line2D([], [], color=LEADERS[index], marker="o", linestyle="") for index in (0, 1)]
    figure.legend(entries, ["IID", "OOD"], loc="outside lower center", ncols=2, frameon=False)
    return figure


def tables(results: Results) -> str:
    parts = []
    for at in ("key", "behind it"):
        lines = []
        for task, each in results.items():
            for layer, head in sorted({(r["layer"], r["head"]) for r in each[0]["means"]}):
                line = [task, f"{layer}, {head}"]
                for quantity in NAMES:
                    chosen = [
                        row["greater"]
                        for result in each
                        for row in result["pairs"]
                        if (row["layer"], row["head"], row["quantity"], row["at"])
                        == (layer, head, quantity, at)
                    ]
                    line.append(spread(chosen, 2))
                if any(line[2:]):
                    lines.append(line)
        where = "at the key" if at == "key" else "behind the key"
        parts.append(
            "Share of minimal pairs in which a quantity is greater where the key is known, "
            f"{where}; mean of the seeds (least–greatest)\n\n"
            + markdown_table(["task", "layer, head", *NAMES.values()], lines, words=2)
        )
    lines = []
    for task, each in results.items():
        names = list(
            dict.fromkeys(
                (what_is_held(row), row["split"])
                for result in each
                for row in result["ablation"]
                if row["by"] == "model" and row["held"]
            )
        )
        for name, split in names:
            losses = [
                100 * row["loss"]
                for result in each
                for row in result["ablation"]
                if row["by"] == "model" and (what_is_held(row), row["split"]) == (name, split)
            ]
            lines.append([task, split, name, spread(losses)])
    parts.append(
        "Points of exact match lost where the whole model is held\n\n"
        + markdown_table(["task", "split", "held", "lost"], lines, words=3)
    )
    return "\n\n".join(parts) + "\n"


FIGURES: dict[str, tuple[Callable[[Results], Figure], Callable[[Results], bool]]] = {
    "pairs": (pairs, lambda found: any(task != MIXTURE for task in found)),
    "stages": (stages, lambda found: MIXTURE in found),
    "regimes": (regimes, lambda found: MIXTURE in found),
    "transport": (transport, lambda found: "rebind" in found),
    "ablation": (ablation, bool),
}


def main(folder: Path) -> None:
    results, missing = read_studies(folder)
    (folder / "figures").mkdir(exist_ok=True)
    with rc_context(LOOKS):
        for name, (drawing, possible) in FIGURES.items():
            if possible(results):
                write_atomically(folder / "figures" / f"{name}.png", png(drawing(results)))
    if results:
        write_atomically(folder / "tables.md", tables(results).encode())
    for line in missing:
        print("missing:", line)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))

"""Figures and tables of what ``study.py`` found.

    python results/microscope/figures.py FOLDER

Writes FOLDER/figures/*.png and FOLDER/tables.md from FOLDER/study, and says what is missing.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fourfold.reports.markdown import markdown_table, spread
from fourfold.reports.tasks.figures import LOOKS
from fourfold.settings import read_mapping

COLOURS, MARKERS = ("#0b6e6e", "#c4622d", "#5b5bb0", "#400040"), "os^D"
SHOWN = {
    "rho": "ρ",
    "lambda": "λ",
    "beta_k": "βK",
    "beta_v": "βV",
    "alpha": "α",
    "tau": "‖τ‖",
    "residual_v": "‖r‖ of V",
}


def results(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Results of each task, one a seed."""
    found: dict[str, list[dict[str, Any]]] = {}
    for task in read_mapping(folder / "grid.yaml", "tasks")["tasks"]:
        paths = sorted((folder / "study" / task).rglob("*.json"))
        if not paths:
            print("missing:", task)
        found[task] = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    return found


def strip(axes: Axes, lines: list[tuple[str, list[tuple[int, int, float]]]]) -> None:
    """A line of dots for each name: (layer, head, value), one for each head and seed."""
    for y, (_, dots) in enumerate(lines):
        for layer, head, value in dots:
            shift = 0.14 * (layer - 0.5)
            axes.plot(
                value,
                y + shift,
                MARKERS[head % len(MARKERS)],
                color=COLOURS[layer % len(COLOURS)],
                markersize=4,
                alpha=0.75,
                label=f"layer {layer}, head {head}",
            )
    axes.set_yticks(range(len(lines)), [name for name, _ in lines])
    axes.set_ylim(len(lines) - 0.5, -0.5)
    axes.grid(axis="x", color="#e8e5dc", linewidth=0.8)
    axes.set_axisbelow(True)


def separating(axes: Axes, task: str, found: list[dict[str, Any]]) -> None:
    lines = []
    for quantity, name in SHOWN.items():
        dots = [
            (row["layer"], row["head"], row["auc"])
            for result in found
            for row in result["separation"]
            if row["quantity"] == quantity
        ]
        lines.append((name, dots))
    strip(axes, lines)
    axes.axvline(0.5, color="#1d2429", linewidth=0.8)
    later = " or ".join(found[0]["events"][1])
    axes.set(title=task, xlim=(-0.03, 1.03), xlabel=f"greater at {later} (AUC)")


def ablating(axes: Axes, task: str, found: list[dict[str, Any]]) -> None:
    named: dict[str, list[tuple[int, int, float]]] = {}
    for result in found:
        for row in result["ablation"][1:]:
            held = ", ".join(f"{key} = {value:g}" for key, value in row["held"].items())
            dot = (row["layer"], row["head"], 100 * row["loss"])
            named.setdefault(held, []).append(dot)
    strip(axes, sorted(named.items()))
    axes.set(title=task, xlabel="points of exact match lost")


def draw(found: dict[str, list[dict[str, Any]]], panel: Any, path: Path) -> None:
    tasks = [task for task, each in found.items() if each]
    with rc_context(LOOKS):
        figure = Figure(figsize=(3.1 * len(tasks), 3.4), layout="constrained")
        for axes, task in zip(figure.subplots(1, len(tasks), squeeze=False)[0], tasks, strict=True):
            panel(axes, task, found[task])
            if axes is not figure.axes[0]:
                axes.set_yticklabels([])
        handles, labels = figure.axes[0].get_legend_handles_labels()
        once = dict(zip(labels, handles, strict=True))
        figure.legend(
            once.values(), once.keys(), loc="outside lower center", ncols=4, frameon=False
        )
        figure.savefig(path, dpi=150)


def tables(found: dict[str, list[dict[str, Any]]]) -> str:
    parts: list[str] = []
    for key, title in (
        ("auc", "at all tokens"),
        ("matched", "among tokens at the same position"),
    ):
        rows = []
        for task, each in found.items():
            row = [task]
            for quantity in (*SHOWN, "position"):
                strengths = [
                    max(abs(r[key] - 0.5) for r in found_rows)
                    for result in each
                    if (
                        found_rows := [
                            r
                            for r in result["separation"]
                            if r["quantity"] == quantity and r[key] is not None
                        ]
                    )
                ]
                row.append(spread(strengths, 2))
            rows.append(row)
        parts.append(
            f"|AUC − ½| of the head that tells the events apart best, {title}, mean over seeds "
            "(least–greatest)\n\n" + markdown_table(["", *SHOWN.values(), "position"], rows)
        )
    held: list[str] = []
    for each in found.values():
        for result in each:
            for row in result["ablation"][1:]:
                name = ", ".join(f"{key} = {value:g}" for key, value in row["held"].items())
                if name not in held:
                    held.append(name)
    rows = []
    for task, each in found.items():
        whole = [100 * result["ablation"][0]["exact_match"] for result in each]
        line = [task, spread(whole) if whole else ""]
        for name in sorted(held):
            losses = []
            for result in each:
                losses.append(
                    max(
                        100 * row["loss"]
                        for row in result["ablation"][1:]
                        if ", ".join(f"{key} = {value:g}" for key, value in row["held"].items())
                        == name
                    )
                )
            line.append(spread(losses) if losses else "")
        rows.append(line)
    parts.append(
        "Points of exact match lost when a coordinate of one head is held, of the head that loses "
        "most\n\n" + markdown_table(["", "as it is", *sorted(held)], rows)
    )
    return "\n\n".join(parts) + "\n"


def main(folder: Path) -> None:
    found = results(folder)
    (folder / "figures").mkdir(exist_ok=True)
    if any(found.values()):
        draw(found, separating, folder / "figures" / "separation.png")
        draw(found, ablating, folder / "figures" / "ablation.png")
        (folder / "tables.md").write_text(tables(found), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))

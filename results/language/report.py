"""The table and the figure of the runs in a folder.

    python results/language/report.py results/language

Each run is a subfolder with the files that run.sh puts there. Writes tables.md and positions.png.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from fourfold.files import write_atomically
from fourfold.reports.markdown import markdown_table
from fourfold.reports.style import png
from fourfold.reports.tasks.figures import LOOKS
from fourfold.reports.tasks.styles import LEADERS, MARKERS

NAMES = {
    "atpm": "ATPM",
    "gated_deltanet": "Gated DeltaNet",
    "attention": "Transformer",
    "lstm": "LSTM",
    "mosaic": "Memory Mosaics v2",
}
PARTS = ("result", "evaluate", "session")
FEWEST = 1000
"""Tokens at a distance that are enough for a mark in the figure."""

Run = dict[str, dict[str, Any]]


def read_runs(folder: Path) -> dict[str, Run]:
    """What is there of each run, by its folder's name."""
    return {
        layer: {
            part: json.loads(path.read_text(encoding="utf-8"))
            for part in PARTS
            if (path := folder / layer / f"{part}.json").exists()
        }
        for layer in NAMES
        if (folder / layer).exists()
    }


def table(runs: dict[str, Run]) -> str:
    """One row a run."""
    header = ["model", "parameters", "tokens read", "bits per byte", "perplexity"]
    header += ["tokens/s", "nats a token saved by the chapter before"]
    rows = []
    for layer, run in runs.items():
        trained, measured, asked = (run.get(part) for part in PARTS)
        row = [NAMES[layer]]
        row += [f"{trained['parameters']:,}", f"{trained['tokens']:,}"] if trained else ["–", "–"]
        row += (
            [f"{measured['bits_per_byte']:.4f}", f"{measured['perplexity']:.1f}"]
            if measured
            else ["–", "–"]
        )
        row += [f"{trained['train_tokens_per_second']:,.0f}" if trained else "–"]
        if asked:
            low, high = asked["gain_interval"]
            row += [f"{asked['gain']:.4f} ({low:.4f} to {high:.4f})"]
        rows.append(row if asked else [*row, "–"])
    return markdown_table(header, rows)


def positions(runs: dict[str, Run]) -> Figure:
    """Loss by how much of a document the memory had read."""
    figure = Figure(figsize=(6.8, 4.4), layout="constrained")
    axes = figure.subplots()
    for index, (layer, run) in enumerate(runs.items()):
        parts = [
            part
            for part in run.get("evaluate", {}).get("by_position", [])
            if part["tokens"] >= FEWEST
        ]
        axes.plot(
            [max(part["start"], 1) for part in parts],
            [part["nats"] for part in parts],
            label=NAMES[layer],
            color=LEADERS[index],
            marker=MARKERS[index],
            markersize=4.5,
        )
    axes.set_xscale("log", base=2)
    axes.set(xlabel="tokens of the book read before", ylabel="nats a token")
    axes.grid(axis="y", color="#e8e5dc", linewidth=0.8)
    axes.legend(frameon=False)
    return figure


def main(folder: Path) -> None:
    runs = read_runs(folder)
    write_atomically(folder / "tables.md", (table(runs) + "\n").encode())
    with rc_context(LOOKS):
        write_atomically(folder / "positions.png", png(positions(runs)))
    for layer in NAMES:
        for part in PARTS:
            if part not in runs.get(layer, {}):
                print(f"missing: {layer}, {part}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))

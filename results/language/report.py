"""The table, the figure and some samples of the runs in a folder.

    python results/language/report.py results/language

Each run is a subfolder with the files that run.sh puts there. Writes tables.md, samples.md and
positions.png.
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
    "atpm_start_0.02": "ATPM, weights from 0.02",
    "gated_deltanet_start_0.02": "Gated DeltaNet, weights from 0.02",
}
PARTS = ("result", "evaluate", "session", "samples")
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
    header += ["nats a token saved by the chapter before", "pairs in which it saves"]
    rows = []
    for layer, run in runs.items():
        trained, measured, asked = (run.get(part) for part in ("result", "evaluate", "session"))
        row = [NAMES[layer]]
        row += [f"{trained['parameters']:,}", f"{trained['tokens']:,}"] if trained else ["–", "–"]
        row += (
            [f"{measured['bits_per_byte']:.4f}", f"{measured['perplexity']:.1f}"]
            if measured
            else ["–", "–"]
        )
        if asked:
            low, high = asked["gain_interval"]
            row += [f"{asked['gain']:.4f} ({low:.4f} to {high:.4f})", f"{asked['better']:.0%}"]
        rows.append(row if asked else [*row, "–", "–"])
    return markdown_table(header, rows)


def sampled(run: Run) -> list[dict[str, Any]]:
    """The rows of its samples, if there are any."""
    return run.get("samples", {}).get("rows", [])


def samples(runs: dict[str, Run], book: str, temperature: float) -> str:
    """How each model goes on from the beginning of a book."""
    said = {
        NAMES[layer]: row["said"]
        for layer, run in runs.items()
        for row in sampled(run)
        if row["book"] == book and row["temperature"] == temperature
    }
    rows = [[name, " ".join(text.split()).replace("|", r"\|")] for name, text in said.items()]
    return markdown_table(["model", "goes on"], rows, words=2)


def all_samples(runs: dict[str, Run]) -> str:
    """Those of every book, under the end of what was read of it."""
    read = {
        (row["book"], row["temperature"]): row["read"]
        for run in runs.values()
        for row in sampled(run)
    }
    return "\n".join(
        f"## {book}, temperature {temperature:g}\n\n… {' '.join(text.split())[-300:]}\n\n"
        f"{samples(runs, book, temperature)}\n"
        for (book, temperature), text in read.items()
    )


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
    write_atomically(folder / "samples.md", all_samples(runs).encode())
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

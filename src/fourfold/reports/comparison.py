"""The comparison as one self-contained HTML page, drawn from result files alone."""

from __future__ import annotations

import html
import math
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from fourfold.files import write_atomically
from fourfold.reports.markdown import markdown_table
from fourfold.reports.style import STYLE, inline_svg
from fourfold.results import read_result

FIELDS = {
    "command",
    "commit",
    "finished",
    "machine",
    "model",
    "options",
    "parameters",
    "seed",
    "state_bytes",
    "state_bytes_at_tokens",
    "text_name",
    "tokens_per_step",
    "train_loss_nats",
    "train_tokens_per_second",
    "validation_bits_per_byte",
    "validation_curve",
    "versions",
}
"""What a page is drawn from."""

COLOURS = ("#0b6e6e", "#c4622d", "#5a5fb0", "#8a8a3a", "#a04a78", "#4a555c")
DASHES = ("-", "--", "-.", ":")


def read_comparison(folder: Path) -> list[dict[str, Any]]:
    """The results below ``folder``, one a model, best first.

    Raises:
        FileNotFoundError: there is none.
        ValueError: one of them is no result file.
    """
    found = []
    for path in sorted(folder.glob("*/result.json")):
        result = read_result(path) or {}
        if missing := FIELDS - result.keys():
            raise ValueError(f"{path} is no result of a comparison: it lacks {min(missing)}.")
        found.append(result)
    if not found:
        raise FileNotFoundError(f"{folder} holds no results; run fourfold compare first.")
    return sorted(found, key=lambda result: result["validation_bits_per_byte"])


def write_report(folder: Path) -> Path:
    """Draw ``folder``/report.html from the results below it.

    Returns:
        where it lies.
    """
    results = read_comparison(folder)
    path = folder / "report.html"
    write_atomically(path, _page(results).encode())
    return path


def table_rows(results: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Header and one row a model, as text."""
    length = results[0]["state_bytes_at_tokens"]
    header = [
        "model",
        "parameters",
        f"state bytes per sequence ({length} tokens)",
        "validation bits per byte",
        "training tokens/s",
    ]
    return [header] + [
        [
            result["model"],
            f"{result['parameters']:,}",
            f"{result['state_bytes']:,}",
            f"{result['validation_bits_per_byte']:.3f}",
            f"{result['train_tokens_per_second']:,.0f}",
        ]
        for result in results
    ]


def comparison_markdown(results: Sequence[dict[str, Any]]) -> str:
    """``table_rows`` as a Markdown table."""
    header, *rows = table_rows(results)
    return markdown_table(header, rows)


def _page(results: Sequence[dict[str, Any]]) -> str:
    first = results[0]
    training = first["options"]["training"]
    header, *rows = table_rows(results)
    body = "\n".join(
        f"<tr{' class=best' if index == 0 else ''}>"
        + "".join(f"<td>{html.escape(cell)}</td>" for cell in row)
        + "</tr>"
        for index, row in enumerate(rows)
    )
    tokens = training["steps"] * first["tokens_per_step"]
    versions = ", ".join(f"{name} {value}" for name, value in first["versions"].items())
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>fourfold: which memory predicts this text best?</title>
<style>{STYLE}</style>
</head>
<body>
<h1>Which memory predicts this text best?</h1>
<p class="lead">{len(results)} language models of equal size, trained from scratch on
{tokens:,} bytes of <strong>{html.escape(first["text_name"])}</strong>, the same for each,
and measured on text that none of them saw.</p>
<div class="scroll"><table>
<thead><tr>{"".join(f"<th>{html.escape(cell)}</th>" for cell in header)}</tr></thead>
<tbody>
{body}
</tbody>
</table></div>
<p>Fewer bits per byte are better. A state is what a model carries from token to token for one
sequence; that of a Transformer grows with every token, the others keep their size. Speed is that of
this machine, threads: {first["machine"]["threads"]}. One seed, one learning rate
({training["learning_rate"]:g}) for all and a short training: differences of a few hundredths may be
chance, and a model that wants another rate is not shown at its best.</p>
<h2>Validation</h2>
{_figure(results, _draw_validation, "Validation bits per byte against tokens trained on")}
<h2>Training</h2>
{_figure(results, _draw_training, "Training loss in bits per token against tokens trained on")}
<h2>To run it again</h2>
<pre>{html.escape(shlex.join(first["command"]))}</pre>
<p>Seed {first["seed"]}; commit {html.escape(str(first["commit"] or "unknown"))};
{html.escape(versions)}; finished {html.escape(first["finished"])}. All figures on this page are
drawn from the <code>result.json</code> files beside it.</p>
</body>
</html>
"""


def _figure(results: Sequence[dict[str, Any]], draw: Any, title: str) -> str:
    figure = Figure(figsize=(8.4, 4.0), layout="constrained")
    axes = figure.add_subplot()
    for number, result in enumerate(_by_name(results)):
        draw(axes, result, COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)])
    axes.set_xlabel("tokens trained on (thousands)")
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    return inline_svg(figure, title)


def _by_name(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """In an order that does not depend on who won, so that colours stay with their models."""
    return sorted(results, key=lambda result: result["model"])


def _draw_validation(axes: Any, result: dict[str, Any], colour: str, dash: str) -> None:
    curve = result["validation_curve"]
    axes.plot(
        [point["tokens"] / 1000 for point in curve],
        [point["bits_per_byte"] for point in curve],
        dash,
        color=colour,
        marker="o",
        label=result["model"],
    )
    axes.set_ylabel("bits per byte")


def _draw_training(axes: Any, result: dict[str, Any], colour: str, dash: str) -> None:
    losses, per_step = result["train_loss_nats"], result["tokens_per_step"]
    span = max(1, len(losses) // 40)
    smooth = [
        sum(losses[max(0, i + 1 - span) : i + 1]) / (i + 1 - max(0, i + 1 - span)) / math.log(2)
        for i in range(len(losses))
    ]
    axes.plot(
        [(i + 1) * per_step / 1000 for i in range(len(losses))],
        smooth,
        dash,
        color=colour,
        label=result["model"],
    )
    axes.set_ylabel(f"bits per token (mean of {span} steps)")

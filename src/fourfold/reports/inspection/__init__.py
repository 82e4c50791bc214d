"""One page of what a model's memories did, for any browser, without a network."""

from __future__ import annotations

import html
import json
from importlib.resources import files
from typing import Any


def page(data: dict[str, Any]) -> str:
    """A self-contained page.

    Args:
        data: what ``observe.inspect_reading`` put down.
    """
    style, script, parts = (_part(f"page.{kind}") for kind in ("css", "js", "html"))
    # In a script, "<" may begin what ends it; JSON may write it otherwise.
    held = json.dumps(data, allow_nan=False).replace("<", "\\u003c")
    lead = "".join(f"<p class='soft'>{html.escape(line)}</p>" for line in data["lead"])
    title = html.escape(data["title"])
    body = parts if data["layers"] else "<p>Nothing was read; this is the state alone.</p>"
    return (
        f"<!doctype html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n"
        f"<meta name='viewport' content='width=device-width, initial-scale=1'>\n"
        f"<title>{title}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f"<h1>{title}</h1>\n{lead}\n{body}\n{_ablation(data)}{_states(data)}"
        f"<div id='tip' role='status'></div>\n"
        f"<script type='application/json' id='data'>{held}</script>\n"
        f"<script>\n{script}</script>\n</body>\n</html>\n"
    )


def _part(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _ablation(data: dict[str, Any]) -> str:
    rows = data["ablation"]
    if not rows:
        return ""
    whole, *held = rows
    lines = "".join(
        f"<tr><td>layer {row['layer']}, head {row['head']}</td><td>"
        + ", ".join(f"{name} = {value:g}" for name, value in row["held"].items())
        + f"</td><td>{100 * row['exact_match']:.1f} %</td><td>{100 * row['loss']:+.1f}</td></tr>"
        for row in held
    )
    return (
        "<h2>What if it were held?</h2>\n"
        f"<p class='soft'>Exact match of the model as it is: {100 * whole['exact_match']:.1f} %; "
        "below, with one coordinate of one head held for all tokens.</p>\n"
        "<div class='scroll'><table><tr><th>head</th><th>held</th><th>exact match</th>"
        f"<th>points lost</th></tr>{lines}</table></div>\n"
    )


def _states(data: dict[str, Any]) -> str:
    if not data["states"]:
        return ""
    lines = "".join(
        f"<tr><td>layer {row['layer']}, head {row['head']}</td><td>{row['norm']:.3g}</td>"
        f"<td>{row['rank']:.1f} of {row['of']}</td></tr>"
        for row in data["states"]
    )
    return (
        "<h2>The state at the end</h2>\n"
        "<p class='soft'>The effective rank is exp of the entropy of the squared singular values: "
        "how many directions the state uses, of how many it has.</p>\n"
        "<div class='scroll'><table><tr><th>head</th><th>‖E‖</th><th>effective rank</th></tr>"
        f"{lines}</table></div>\n"
    )

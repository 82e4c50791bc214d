"""One page of what a model's memories did, for any browser, without a network."""

from __future__ import annotations

import html
import json
from importlib.resources import files
from typing import Any

from fourfold.reports.inspection.tables import ablation_table, state_table

SCRIPTS = ("base", "colours", "text", "portrait", "around", "readable", "heads", "page")
"""Parts of the page's script, in their order."""


def page(data: dict[str, Any]) -> str:
    """A self-contained page.

    Args:
        data: what ``observe.inspect_reading`` put down.
    """
    script = "".join(_part(f"{name}.js") for name in SCRIPTS)
    # In a script, "<" may begin what ends it; JSON may write it otherwise.
    held = json.dumps(data, allow_nan=False).replace("<", "\\u003c")
    lead = "".join(
        f"<p class='soft'>{html.escape(line)}</p>" for line in [*data["lead"], *_left_out(data)]
    )
    title = html.escape(data["title"])
    read = bool(data["layers"])
    body = _part("page.html") if read else "<p>Nothing was read; this is the state alone.</p>"
    return (
        f"<!doctype html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n"
        f"<meta name='viewport' content='width=device-width, initial-scale=1'>\n"
        f"<title>{title}</title>\n<style>\n{_part('page.css')}</style>\n</head>\n<body>\n"
        f"<h1>{title}</h1>\n{lead}\n{body}\n{ablation_table(data)}{state_table(data)}"
        f"<div id='tip' role='status'></div>\n"
        f"<script type='application/json' id='data'>{held}</script>\n"
        f"<script>\n{script}</script>\n</body>\n</html>\n"
    )


def _part(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _left_out(data: dict[str, Any]) -> list[str]:
    """What was read and is not shown, and where what is shown stands."""
    if not data["layers"]:
        return []
    first, end = data["first"], data["first"] + len(data["words"])
    tokens, events = data["left_out"]["tokens"], data["left_out"]["events"]
    where = f"tokens {first:,} to {end - 1:,} of all that the memory has read"
    if tokens:
        also = f", among them {events:,} events" if events else ""
        return [
            f"{tokens:,} tokens before were read and are not shown{also} (--last shows more). "
            f"Shown are {where}."
        ]
    return [f"Shown are {where}."] if first else []

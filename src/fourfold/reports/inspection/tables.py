"""Tables of a page: what is lost when a coordinate is held, and how full each state is."""

from __future__ import annotations

from typing import Any

MOST = 8
"""Rows of the ablation that are shown at once."""

WIDTH = 140
"""Of a bar, in pixels."""


def ablation_table(data: dict[str, Any]) -> str:
    """Exact match with one coordinate of one head held, the greatest changes first."""
    if not data["ablation"]:
        return ""
    whole, *held = data["ablation"]
    held.sort(key=lambda row: -abs(row["loss"]))
    changed = sum(1 for row in held if row["loss"])
    first, rest = held[: min(MOST, changed)], held[min(MOST, changed) :]
    asked = data.get("ablated")
    of = f" of {asked['questions']:,} questions in {asked['examples']:,} examples" if asked else ""
    interval = any(row.get("interval") for row in held)
    lines = [
        "<h2>What if it were held?</h2>\n"
        f"<p class='soft small'>Exact match of the model as it is: {_percent(whole)}{of}; below, "
        "with one coordinate of one head held for all tokens. A loss below 0 is a gain."
        + (" Intervals are of the paired difference, 95 %." if interval else "")
        + "</p>\n"
    ]
    if not changed:
        lines.append("<p>Nothing that was held changed it.</p>\n")
    ends = [x for row in held for x in (row["loss"], *(row.get("interval") or ()))]
    reach = (min(0.0, *ends), max(0.0, *ends)) if held else (0.0, 0.0)
    if first:
        lines.append(_rows(first, reach, interval))
    if rest:
        what = "The others" if first else "All that was held"
        lines.append(
            f"<details><summary>{what}: {len(rest)}</summary>{_rows(rest, reach, interval)}"
            "</details>\n"
        )
    return "".join(lines)


def _rows(rows: list[dict[str, Any]], reach: tuple[float, float], interval: bool) -> str:
    head = "<tr><th>head</th><th>held</th><th>points lost</th><th>exact match</th><th></th></tr>"
    lines = "".join(
        f"<tr><td>{_where(row)}</td><td>{_held(row)}</td><td>{_points(row, interval)}</td>"
        f"<td>{_percent(row)}</td><td>{_bar(row, reach)}</td></tr>"
        for row in rows
    )
    return f"<div class='scroll'><table class='ablation'>{head}{lines}</table></div>\n"


def _where(row: dict[str, Any]) -> str:
    layer = "all layers" if row["layer"] is None else f"layer {row['layer']}"
    return f"{layer}, {'all heads' if row['head'] is None else 'head ' + str(row['head'])}"


def _held(row: dict[str, Any]) -> str:
    return ", ".join(
        f"{name} = {value if isinstance(value, str) else format(value, 'g')}"
        for name, value in row["held"].items()
    )


def _percent(row: dict[str, Any]) -> str:
    return f"{100 * row['exact_match']:.1f} %"


def _points(row: dict[str, Any], interval: bool) -> str:
    points = _signed(row["loss"])
    if not interval:
        return points
    found = row.get("interval")
    return f"{points} [{', '.join(map(_signed, found))}]" if found else points


def _signed(share: float) -> str:
    points = round(100 * share, 1)
    return f"{points:+.1f}".replace("-", "−") if points else "0.0"


def _bar(row: dict[str, Any], reach: tuple[float, float]) -> str:
    """The loss as a bar from 0, and its interval as a line."""
    low, high = reach
    if low == high:
        return ""

    def x(share: float) -> float:
        return WIDTH * (share - low) / (high - low)

    start, end = sorted((x(0), x(row["loss"])))
    colour = "#c4622d" if row["loss"] > 0 else "#0b6e6e"
    drawn = (
        f"<line x1='{x(0):.1f}' x2='{x(0):.1f}' y1='0' y2='14' stroke='#b9b5a8'/>"
        f"<rect x='{start:.1f}' y='3' width='{end - start:.1f}' height='8' fill='{colour}'/>"
    )
    if row.get("interval"):
        start, end = map(x, row["interval"])
        drawn += f"<line x1='{start:.1f}' x2='{end:.1f}' y1='7' y2='7' stroke='#1d2429'/>"
    return (
        f"<svg class='bar' viewBox='0 0 {WIDTH} 14' width='{WIDTH}' height='14' "
        f"aria-hidden='true'>{drawn}</svg>"
    )


def state_table(data: dict[str, Any]) -> str:
    """Norm and effective rank of each head's state at the end."""
    if not data["states"]:
        return ""
    lines = "".join(
        f"<tr><td>layer {row['layer']}, head {row['head']}</td><td>{row['norm']:.3g}</td>"
        f"<td>{row['rank']:.1f} of {row['of']}</td></tr>"
        for row in data["states"]
    )
    return (
        "<h2>The state at the end</h2>\n"
        "<p class='soft small'>The effective rank is exp of the entropy of the squared singular "
        "values: how many directions the state uses, of how many it has.</p>\n"
        "<div class='scroll'><table><tr><th>head</th><th>‖E‖</th><th>effective rank</th></tr>"
        f"{lines}</table></div>\n"
    )

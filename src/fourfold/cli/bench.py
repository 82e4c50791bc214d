"""``fourfold bench``: tables in the terminal, a result file and a figure beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from fourfold.benchmarks.ops import PASSES, OpsOptions, run_ops
from fourfold.benchmarks.recurrences import TRANSFORMERS
from fourfold.benchmarks.shapes import Shape
from fourfold.benchmarks.step import StepOptions, run_step
from fourfold.benchmarks.summary import ratio
from fourfold.cli.common import console, say
from fourfold.reports.benchmarks import write_figure
from fourfold.results import write_result

NOTHING = "–"


def run_ops_benchmark(options: OpsOptions, output: Path) -> None:
    """Time the operators, print, write ``output``/ops.json and its figure."""
    output.mkdir(parents=True, exist_ok=True)
    with console.status("operators") as status:
        result = run_ops(options, lambda what: status.update(f"operators: {what}"))
    path = output / "ops.json"
    write_result(path, result)
    for entry in result["shapes"]:
        console.print(shape_table(entry))
    for batch in sorted({entry["batch"] for entry in result["decode"]}):
        console.print(decode_table(result["decode"], batch))
    if result["memory"]:
        console.print(memory_table(result["memory"]))
    say(*missing_lines(result), *summary_lines(result["summary"]))
    say(f"Results:  {path}")
    if result["lengths"]:
        say(f"Figure:  {write_figure(path)}")


def run_step_benchmark(options: StepOptions, output: Path) -> None:
    """Time training steps, print, write ``output``/step.json."""
    output.mkdir(parents=True, exist_ok=True)
    with console.status("training step") as status:
        result = run_step(options, lambda what: status.update(f"training step: {what}"))
    path = output / "step.json"
    write_result(path, result)
    console.print(step_table(result["steps"]))
    console.print(layer_table(result["layers"]))
    if result["versions_compared"] is not None:
        console.print(version_table(result["versions_compared"]))
    say(f"Results:  {path}")


def shape_table(entry: dict[str, Any]) -> Table:
    """Times of one shape, a row for each contestant that was timed at all."""
    table = _table(
        f"{Shape(**entry['shape'])}: ms (quartiles), and ratio to transformers",
        "contestant",
        "forward",
        "ratio",
        "forward + backward",
        "ratio",
    )
    for row in entry["rows"]:
        if any(row[mode] for mode in PASSES):
            name, cells = row["contestant"], []
            for mode in PASSES:
                cells += [_time(row[mode]), _ratio(ratio(entry, mode, name, TRANSFORMERS))]
            table.add_row(name, *cells)
    return table


def decode_table(entries: list[dict[str, Any]], batch: int) -> Table:
    """Microseconds of a one-token step of ``batch`` rows, by tokens read before."""
    entries = [entry for entry in entries if entry["batch"] == batch]
    table = _table(
        f"One-token step of {batch} rows after so many tokens: microseconds;\n"
        "bytes of memory a row at the first and at the last of them",
        "contestant",
        *(f"{entry['tokens_read']:,}" for entry in entries),
        "bytes",
    )
    for name in dict.fromkeys(name for entry in entries for name in entry["step"]):
        timed = [entry for entry in entries if name in entry["step"]]
        cells = (
            f"{1e3 * entry['step'][name]['median_ms']:,.0f}" if entry in timed else NOTHING
            for entry in entries
        )
        sizes = (entry["memory_bytes"][name] // batch for entry in (timed[0], timed[-1]))
        table.add_row(name, *cells, ", ".join(f"{size:,}" for size in sizes))
    return table


def memory_table(entries: list[dict[str, Any]]) -> Table:
    """Memory of forward and backward."""
    table = _table(
        "Memory of forward + backward, bytes a token: ends (inputs, output, their gradients);\n"
        "allocated at the peak on top of the inputs; alive at the peak beyond the ends",
        "contestant",
        "T",
        "ends",
        "peak",
        "multiple",
        "beyond",
        "multiple",
    )
    for entry in entries:
        table.add_row(
            entry["contestant"],
            f"{entry['shape']['tokens']:,}",
            f"{entry['inputs_output_gradients_bytes_per_token']:,.0f}",
            f"{entry['allocated_at_peak_bytes_per_token']:,.0f}",
            f"{entry['allocated_at_peak_multiple']:.2f}",
            f"{entry['beyond_bytes_per_token']:,.0f}",
            f"{entry['beyond_multiple']:.2f}",
        )
    return table


def missing_lines(result: dict[str, Any]) -> list[str]:
    """Who took no part, and why, each once: first in the whole run, then at single shapes."""
    missing = {c["name"]: c["missing"] for c in result["contestants"] if c["missing"]}
    lines = [f"Not available: {name}: {reason}" for name, reason in missing.items()]
    for entry in (*result["shapes"], *result["lengths"]):
        for row in entry["rows"]:
            if row["reason"] and row["contestant"] not in missing:
                shape = Shape(**entry["shape"])
                lines.append(f"Not timed at {shape}: {row['contestant']}: {row['reason']}")
    for entry in result["decode"]:
        for name, reason in entry["reasons"].items():
            if name not in missing:
                lines.append(f"Not decoded: {name}: {reason}")
    return list(dict.fromkeys(lines))


def summary_lines(summary: dict[str, Any]) -> list[str]:
    """The ratios, as sentences."""
    lines = [f"{summary['ratio']}:"]
    for entry in summary["shapes"]:
        lines.append(f"  {Shape(**entry['shape'])}: {_ratios(entry)}")
    for name, value in summary.items():
        if name.startswith("geometric_mean"):
            lines.append(f"  {name.replace('_', ' ')}: {_ratios(value)}")
    linear = summary["per_token_longest_to_shortest"]
    if linear is not None:
        lines.append(f"Time per token of ATPM fused, most tokens : fewest tokens: {linear:.2f}")
    return lines if len(lines) > 2 else lines[1:]


def step_table(steps: dict[str, Any]) -> Table:
    """A training step of each model, and of all."""
    table = _table(
        "Training step, ms", "model", "default", "composed of torch's operators", "ratio"
    )
    for row in steps["models"]:
        table.add_row(
            row["model"], _time(row["default"]), _time(row["composed"]), f"{row['ratio']:.2f}"
        )
    total = steps["sum"]
    table.add_section()
    table.add_row(
        "sum",
        _short(total["default_ms"]),
        _short(total["composed_ms"]),
        f"{total['ratio']:.2f}",
    )
    return table


def layer_table(layers: dict[str, Any]) -> Table:
    """A memory layer against another."""
    table = _table("Layer, forward + backward", "layer", "parameters", "ms")
    for row in layers["layers"]:
        table.add_row(row["layer"], f"{row['parameters']:,}", _time(row["time"]))
    table.add_section()
    table.add_row("first : last", f"{layers['parameter_ratio']:.2f}", f"{layers['time_ratio']:.2f}")
    return table


def version_table(versions: dict[str, Any]) -> Table:
    """The baseline against the present code."""
    table = _table(
        "Training step in processes of their own, ms", "model", "baseline", "present", "ratio"
    )
    old, new = (versions["models_median_ms"][name] for name in ("baseline", "present"))
    for name in new:
        table.add_row(name, _short(old[name]), _short(new[name]), f"{old[name] / new[name]:.2f}")
    total, turns = versions["sum_median_ms"], versions["ratio_of_turns"]
    table.add_section()
    table.add_row(
        "sum",
        _short(total["baseline"]),
        _short(total["present"]),
        f"{versions['ratio']:.2f}",
    )
    lower, upper = turns["quartiles"]
    table.add_row("turn by turn", "", "", f"{turns['median']:.2f} ({lower:.2f}–{upper:.2f})")
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", header_style="bold", box=SIMPLE_HEAD)
    table.add_column(columns[0])
    for name in columns[1:]:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _time(timing: dict[str, Any] | None) -> str:
    """Median and quartiles."""
    if timing is None:
        return NOTHING
    lower, upper = timing["quartiles_ms"]
    return f"{_short(timing['median_ms'])} ({_short(lower)}–{_short(upper)})"


def _short(milliseconds: float) -> str:
    """Three digits at least."""
    return f"{milliseconds:,.0f}" if milliseconds >= 100 else f"{milliseconds:.3g}"


def _ratio(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f}"


def _ratios(entry: dict[str, Any]) -> str:
    modes = {mode: entry[mode] for mode in PASSES if entry.get(mode) is not None}
    return ", ".join(
        f"{mode.replace('_', ' + ')} {value:.3f} ({1 / value:.2f} times as fast)"
        for mode, value in modes.items()
    )

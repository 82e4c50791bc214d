"""How the results of a grid came about."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterable

from fourfold.reports.tasks.results import GridResults, Result
from fourfold.reports.tasks.table import count, listed


def origin(results: GridResults) -> dict[str, str]:
    """What was run, where, for how long and with which numbers, by a word for each."""
    grid, cells = results.grid, list(results.cells.values())
    training, evaluation = grid.training, grid.evaluation
    ends = sorted(result["finished"] for result in cells)
    seconds = sum(result["wall_seconds"] for result in cells)
    return {
        "Commands": _each(cells, lambda result: shlex.join(result["command"])),
        "Commits": _each(cells, lambda result: str(result["commit"] or "unknown")),
        "Versions": _each(cells, _versions),
        "Machines": _each(cells, _machine),
        "Time": f"{_hours(seconds)} of all {count(len(cells), 'finished cell')} together; the "
        f"first was finished {ends[0]}, the last {ends[-1]}",
        "Models": f"{count(grid.layers, 'layer')}, {grid.parameters:,} parameters, met within 2 % "
        f"by the width of the feed-forward; {_pairs(grid.fields)}",
        "Training": f"{count(training.steps, 'step')} of {count(training.batch_size, 'example')}, "
        f"{count(training.warmup_steps, 'step')} of warm-up, weight decay "
        f"{training.weight_decay:g}, gradient clip {training.gradient_clip:g}; rates "
        f"{_numbers(grid.rates)}; seeds {_numbers(grid.seeds)}, unless a model has its own",
        "Evaluation": f"{count(evaluation.examples, 'example')} of each test split, the same for "
        f"every model, rate and seed; {count(evaluation.validation_examples, 'other example')} to "
        "choose the rate by",
    }


def _each(cells: Iterable[Result], describe: Callable[[Result], str]) -> str:
    """What differs between cells, the most frequent first, with the number of cells."""
    found = Counter(map(describe, cells)).most_common()
    if len(found) == 1:
        return found[0][0]
    return "; ".join(f"{text} ({count(number, 'cell')})" for text, number in found)


def _versions(result: Result) -> str:
    return ", ".join(f"{name} {version}" for name, version in result["versions"].items())


def _machine(result: Result) -> str:
    machine = result["machine"]
    threads = count(machine["threads"], "thread")
    return f"{machine['processor']}, {count(machine['cores'], 'core')}, {threads} a cell"


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:,.1f} hours" if seconds >= 3600 else f"{seconds / 60:.1f} minutes"


def _numbers(values: Iterable[float]) -> str:
    return listed([f"{value:g}" for value in values])


def _pairs(fields: dict[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in fields.items()) or "default fields"

"""The smaller tables: models, tasks and rates."""

from __future__ import annotations

from fourfold.grid.cell import TESTS
from fourfold.grid.config import ModelEntry
from fourfold.reports.tasks.results import GridResults, diverged
from fourfold.reports.tasks.score_table import mean_entry
from fourfold.reports.tasks.table import NOTHING, Entry, Table, percent, plain
from fourfold.tasks import Loads


def model_table(results: GridResults) -> Table:
    """What each model is, how large it is, and its means."""
    rows = []
    for name, entry in results.grid.models.items():
        rows.append(
            (
                *plain(
                    name,
                    _layers(entry),
                    "searched" if entry.rate_of is None else f"of {entry.rate_of}",
                    f"{len(results.grid.seeds_of(name))}",
                    _range_of(results, name, "parameters"),
                    _range_of(results, name, "state_bytes"),
                ),
                *(mean_entry(results, name, split, "exact_match") for split in TESTS),
            )
        )
    header = ("model", "layers", "rate", "seeds", "parameters", "state, bytes")
    return Table((*header, "mean IID", "mean OOD", "mean Stress"), tuple(rows), words=3)


def task_table(results: GridResults) -> Table:
    """What each task asks for, and at which loads."""
    rows = []
    for name, task in results.grid.built_tasks.items():
        loads = getattr(task, "loads", None)
        shown = [_loads(loads.of(split)) for split in TESTS] if isinstance(loads, Loads) else ()
        rows.append(plain(name, task.asks_for, task.load_is, *(shown or [NOTHING] * len(TESTS))))
    return Table(("task", "tests", "load", "IID", "OOD", "Stress"), tuple(rows), words=3)


def rate_table(results: GridResults) -> Table:
    """The rate that each model took on each task, and what the others came to."""
    rows = []
    for task in results.grid.tasks:
        entries = (_rate(results, task, model) for model in results.leaders())
        rows.append((Entry(task), *entries))
    return Table(("task", *results.leaders()), tuple(rows))


def _rate(results: GridResults, task: str, model: str) -> Entry:
    rates, chosen = results.grid.rates, results.schedule.best_rate(task, model)
    sweep = []
    for cell in results.schedule.sweep(task, model):
        result = results.cells.get(cell)
        if result is None:
            sweep.append(NOTHING)
        elif diverged(result):
            sweep.append("div.")
        else:
            sweep.append(percent(result["validation"]["exact_match"]))
    if chosen is None:
        return Entry(NOTHING, (" · ".join(sweep),), flag=True)
    edge = len(rates) > 1 and chosen in (min(rates), max(rates))
    return Entry(f"{chosen:g} (edge)" if edge else f"{chosen:g}", (" · ".join(sweep),), flag=edge)


def _layers(entry: ModelEntry) -> str:
    fields = ", ".join(f"{name} {value}" for name, value in entry.fields.items())
    return f"{entry.layer}: {fields}" if fields else entry.layer


def _range_of(results: GridResults, model: str, key: str) -> str:
    """A size of a model, which may differ from task to task with the vocabulary."""
    found = {result[key] for result in results.of(model=model)}
    return "–".join(f"{size:,}" for size in sorted({min(found), max(found)})) if found else NOTHING


def _loads(loads: tuple[int, int]) -> str:
    low, high = loads
    return f"{low}" if low == high else f"{low}–{high}"

"""``fourfold capacity``: how much a memory holds, and when it saturates."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from fourfold.cli.common import console, given, plain_errors, say

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ITEMS = "1,2,4,8,16,32"


@plain_errors
def capacity(
    context: typer.Context,
    what: Annotated[
        Path, typer.Argument(metavar="MODEL|CONFIG", help="Trained model, or a study as YAML.")
    ],
    changes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[field=value …]", help="Of the study, or of the model's task."),
    ] = None,
    task: Annotated[str, typer.Option(help="That a model was trained on.")] = "kv_recall",
    items: Annotated[str, typer.Option(help="Loads at which a model is asked.")] = ITEMS,
    tokens: Annotated[int, typer.Option(min=64, help="Of the streams that are read.")] = 20_000,
    out: Annotated[Path, typer.Option(help="Folder for capacity.json and figures.")] = Path(
        "runs/capacity"
    ),
) -> None:
    """Items stored against recall and interference; and the largest state over long streams.

    A study is of operators with ideal addresses, beside what theory expects; a model is asked.
    """
    from fourfold.files import write_atomically
    from fourfold.reports.style import png
    from fourfold.results import provenance, write_result

    if not what.is_dir() and (of_model := given(context, ("task", "items"))):
        raise ValueError(f"--{of_model[0]} is of a model; {what} is a study, with field=value.")
    measure = _model if what.is_dir() else _study
    with console.status("Measuring …"):
        result, figures = measure(what, tuple(changes or ()), task, items, tokens)
    out.mkdir(parents=True, exist_ok=True)
    write_result(out / "capacity.json", {**result, **provenance()})
    for name, figure in figures.items():
        write_atomically(out / f"{name}.png", png(figure))
    console.print(_table(result))
    say(f"Results and figures: {out}")


def _study(
    path: Path, changes: tuple[str, ...], task: str, items: str, tokens: int
) -> tuple[dict[str, Any], dict[str, Figure]]:
    from fourfold.capacity import CapacityStudy, operator_streams
    from fourfold.reports.capacity import items_figure, neighbours_figure, streams_figure
    from fourfold.settings import change_fields, read_mapping, validated

    content = read_mapping(path, "fields of a study of capacity")
    change_fields(content, changes, like="draws=50")
    study = validated(CapacityStudy, content, str(path))
    rows, neighbours = list(study.rows()), list(study.neighbours())
    streams = list(operator_streams(tokens=tokens, seed=study.seed))
    figures = {
        "recall": items_figure(rows, "accuracy"),
        "interference": items_figure(rows, "error"),
        "streams": streams_figure(streams),
    }
    if neighbours:
        figures["neighbours"] = neighbours_figure(neighbours)
    settings = study.model_dump(mode="json")
    found = {"settings": settings, "rows": rows, "neighbours": neighbours, "streams": streams}
    return found, figures


def _model(
    folder: Path, changes: tuple[str, ...], task: str, items: str, tokens: int
) -> tuple[dict[str, Any], dict[str, Figure]]:
    import torch

    from fourfold.capacity import model_stream, trained_capacity
    from fourfold.cli.models import open_weights
    from fourfold.reports.capacity import streams_figure, trained_figure
    from fourfold.settings import change_fields

    try:
        loads = [int(item) for item in items.split(",")]
    except ValueError:
        loads = [0]
    if min(loads) < 1:
        raise ValueError(f"items must be numbers from 1, like {ITEMS}; got {items!r}.")
    settings: dict[str, Any] = {}
    change_fields(settings, changes, like="value_tokens=1")
    model = open_weights(folder)
    rows = list(trained_capacity(model, task, settings, items=loads))
    draw = torch.Generator().manual_seed(0)
    drawn = torch.randint(model.config.vocab_size, (tokens,), generator=draw)
    streams = list(model_stream(model, "random tokens", drawn.tolist()))
    found = {
        "task": task,
        "settings": settings,
        "configuration": model.config.identity(),
        "rows": rows,
        "streams": streams,
    }
    return found, {"recall": trained_figure(rows, task), "streams": streams_figure(streams)}


def _table(result: dict[str, Any]) -> Table:
    table = Table(header_style="bold")
    if "task" in result:
        for title in ("items", "exact match", "token accuracy"):
            table.add_column(title, justify="right")
        for row in result["rows"]:
            shares = (f"{100 * row[name]:.1f} %" for name in ("exact_match", "token_accuracy"))
            table.add_row(str(row["items"]), *shares)
        return table
    for title in ("rule", "addresses", "S", "α", "items", "recalled", "error", "expected"):
        table.add_column(title, justify="left" if title in ("rule", "addresses") else "right")
    # Where each curve falls below one half: the table of all is in the file.
    for row in _halves(result["rows"]):
        expected = row["expected_error"]
        table.add_row(
            row["rule"],
            row["addresses"],
            str(row["address_dim"]),
            f"{row['decay']:g}",
            str(row["items"]),
            f"{100 * row['accuracy']:.1f} %",
            f"{row['error']:.3f}",
            "" if expected is None else f"{expected:.3f}",
        )
    return table


def _halves(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each condition, the most items of which at least half are recalled."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        key = tuple(row[name] for name in ("rule", "addresses", "address_dim", "heads", "decay"))
        if row["accuracy"] >= 0.5 and row["items"] >= found.get(key, row)["items"]:
            found[key] = row
    return list(found.values())

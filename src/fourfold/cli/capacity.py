"""``fourfold capacity``: how much a memory holds, and when it saturates."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from fourfold.cli.common import console, given, plain_errors, say

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fourfold.models import FourfoldForCausalLM

ITEMS = "1,2,4,8,16,32"
OF_MODEL = ("task", "items", "stored", "examples", "data", "text", "bound")
"""Options that only a model has."""


@plain_errors
def capacity(
    context: typer.Context,
    what: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL|CONFIG",
            help="Trained model, a study as YAML, or a capacity.json to draw again.",
        ),
    ],
    changes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[field=value …]", help="Of the study, or of the model's task."),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(help="That a model was trained on: kv_recall, or with --data none."),
    ] = None,
    items: Annotated[str, typer.Option(help="Loads at which a model is asked.")] = ITEMS,
    stored: Annotated[
        int, typer.Option(min=2, help="Items of which further writes may disturb a half.")
    ] = 8,
    examples: Annotated[int, typer.Option(min=1, help="Of the task, at each load.")] = 200,
    data: Annotated[
        list[Path] | None,
        typer.Option(help="Text that a model reads: .txt, .md, .jsonl, .parquet, or folders."),
    ] = None,
    text: Annotated[str, typer.Option(help="Field of .jsonl or .parquet with the text.")] = "text",
    bound: Annotated[
        float, typer.Option(help="On a state's norm, of the guard with which a model reads.")
    ] = 1e6,
    tokens: Annotated[int, typer.Option(min=64, help="Of the streams that are read.")] = 100_000,
    seeds: Annotated[int, typer.Option(min=1, help="Random streams of a study.")] = 3,
    out: Annotated[Path, typer.Option(help="Folder for capacity.json and figures.")] = Path(
        "runs/capacity"
    ),
) -> None:
    """Items stored against recall and interference; and the largest state over long streams.

    A study is of operators with ideal addresses, beside what theory expects; a model is asked.
    """
    from fourfold.results import provenance, read_result, write_result

    if not what.is_dir() and (of_model := given(context, OF_MODEL)):
        raise ValueError(f"--{of_model[0]} is of a model; {what} is a study, with field=value.")
    if what.is_dir() and given(context, ("seeds",)):
        raise ValueError(f"--seeds is of a study; {what} is a model.")
    if what.suffix == ".json":
        if changes:
            raise ValueError(f"{what} is measured already and takes no fields; got {changes[0]}.")
        result = read_result(what)
        if result is None or not {"rows", "streams"} <= result.keys():
            raise ValueError(f"{what} is no capacity.json.")
        _draw(out, result)
        say(f"Figures: {out}")
        return
    with console.status("Measuring …"):
        if what.is_dir():
            result = _model(
                what,
                changes or [],
                task=task if task or data else "kv_recall",
                items=items,
                stored=stored,
                examples=examples,
                data=data or [],
                text=text,
                bound=bound,
                tokens=tokens,
            )
        else:
            result = _study(what, changes or [], tokens=tokens, seeds=seeds)
    out.mkdir(parents=True, exist_ok=True)
    write_result(out / "capacity.json", {**result, **provenance()})
    _draw(out, result)
    console.print(_table(result))
    say(f"Results and figures: {out}")


def _study(path: Path, changes: list[str], *, tokens: int, seeds: int) -> dict[str, Any]:
    from fourfold.capacity import CapacityStudy, operator_streams
    from fourfold.settings import change_fields, read_mapping, validated

    content = read_mapping(path, "fields of a study of capacity")
    change_fields(content, changes, like="draws=50")
    study = validated(CapacityStudy, content, str(path))
    streams = operator_streams(tokens=tokens, address_dims=study.address_dims, seeds=seeds)
    return {
        "settings": study.model_dump(mode="json"),
        "rows": list(study.rows()),
        "neighbours": list(study.neighbours()),
        "streams": list(streams),
    }


def _model(
    folder: Path,
    changes: list[str],
    *,
    task: str | None,
    items: str,
    stored: int,
    examples: int,
    data: list[Path],
    text: str,
    bound: float,
    tokens: int,
) -> dict[str, Any]:
    from fourfold.capacity import model_stream, trained_capacity, trained_interference
    from fourfold.cli.models import open_weights
    from fourfold.sessions.session import LARGEST_BOUND
    from fourfold.settings import change_fields

    try:
        loads = [int(item) for item in items.split(",")]
    except ValueError:
        loads = [0]
    if min(loads) < 1:
        raise ValueError(f"items must be numbers from 1, like {ITEMS}; got {items!r}.")
    if not 0 < bound <= LARGEST_BOUND:
        raise ValueError(f"bound must be positive and at most {LARGEST_BOUND:g}; got {bound:g}.")
    if task is None and changes:
        raise ValueError(f"Fields are of a task, and no --task was given; got {changes[0]}.")
    settings: dict[str, Any] = {}
    change_fields(settings, changes, like="value_tokens=1")
    model = open_weights(folder)
    readings = _readings(model, folder, data, text, tokens)
    rows: list[dict[str, Any]] = []
    interference: list[dict[str, Any]] = []
    if task is not None:
        rows += trained_capacity(model, task, settings, items=loads, examples=examples)
        interference += trained_interference(
            model, task, settings, stored=stored, examples=examples
        )
    return {
        "task": task,
        "settings": settings,
        "configuration": model.config.identity(),
        "rows": rows,
        "interference": interference,
        "streams": [
            row
            for name, reading in readings.items()
            for limit in (None, bound)
            for row in model_stream(model, name, reading, bound=limit)
        ],
    }


def _readings(
    model: FourfoldForCausalLM, folder: Path, data: list[Path], text: str, tokens: int
) -> dict[str, list[int]]:
    """Streams of tokens, by what they are."""
    import torch

    from fourfold.capacity import worst_pair

    draw = torch.Generator().manual_seed(0)
    drawn = torch.randint(model.config.vocab_size, (tokens,), generator=draw)
    pair = worst_pair(model)
    found = {
        "random tokens": drawn.tolist(),
        f"worst pair ({pair[0]}, {pair[1]})": (list(pair) * (tokens // 2 + 1))[:tokens],
    }
    if data:
        found["text"] = _text(model, folder, data, text, tokens)
    return found


def _text(
    model: FourfoldForCausalLM, folder: Path, data: list[Path], text: str, tokens: int
) -> list[int]:
    """The first tokens of all documents, one behind the other."""
    from transformers import AutoTokenizer

    from fourfold.cli.models import check_vocabulary
    from fourfold.data.prepare import prepare_whole

    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    check_vocabulary(model, tokenizer)
    store = prepare_whole(data, tokenizer, text=text)
    found: list[int] = []
    for number in range(len(store)):
        found += store.tokens(number, 0, min(store.length(number), tokens - len(found))).tolist()
        if len(found) >= tokens:
            break
    return found


def _draw(out: Path, result: dict[str, Any]) -> None:
    from fourfold.files import write_atomically
    from fourfold.reports.style import png

    out.mkdir(parents=True, exist_ok=True)
    for name, figure in _figures(result).items():
        write_atomically(out / f"{name}.png", png(figure))


def _figures(result: dict[str, Any]) -> dict[str, Figure]:
    from fourfold.reports.capacity import (
        items_figure,
        neighbours_figure,
        streams_figure,
        trained_figure,
        trained_interference_figure,
        variations_figure,
    )

    rows, figures = result["rows"], {"streams": streams_figure(result["streams"])}
    if "task" in result:
        if rows:
            figures["recall"] = trained_figure(rows, result["task"])
        if found := result["interference"]:
            figures["interference"] = trained_interference_figure(found, result["task"])
        return figures
    figures["recall"] = items_figure(rows, "accuracy")
    figures["interference"] = items_figure(rows, "error")
    if found := result["neighbours"]:
        figures["neighbours"] = neighbours_figure(found)
    if (variations := variations_figure(rows)) is not None:
        figures["variations"] = variations
    return figures


def _table(result: dict[str, Any]) -> Table:
    table = Table(header_style="bold")
    if "task" in result:
        for title in ("items", "exact match", "token accuracy"):
            table.add_column(title, justify="right")
        for row in result["rows"]:
            shares = (f"{100 * row[name]:.1f} %" for name in ("exact_match", "token_accuracy"))
            table.add_row(str(row["items"]), *shares)
        return table
    # The most items of which at least half are recalled: all that was measured is in the file.
    from fourfold.reports.capacity.styles import operator_of

    rows = result["rows"]
    operators = list(dict.fromkeys(map(operator_of, rows)))
    table.caption = "Most items of which at least half are recalled"
    for title in ("addresses", "S", "D", "H", "α"):
        table.add_column(title, justify="left" if title == "addresses" else "right")
    for rule, rho, proposal in operators:
        table.add_column(rule if rho is None else f"ρ {rho:g} ‖b‖ {proposal:g}", justify="right")
    fields = ("addresses", "similarity", "address_dim", "columns", "heads", "decay")
    most = {
        (*(row[name] for name in fields), operator_of(row)): row["items"]
        for row in sorted(rows, key=lambda row: row["items"])
        if row["accuracy"] >= 0.5
    }
    for condition in dict.fromkeys(tuple(row[name] for name in fields) for row in rows):
        kind, cosine, *told = condition
        found = (most.get((*condition, operator), "") for operator in operators)
        table.add_row(
            kind if cosine is None else f"{kind} {cosine:g}",
            *(f"{value:g}" for value in told),
            *(str(items) for items in found),
        )
    return table

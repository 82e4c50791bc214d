"""``fourfold lm-eval``: the tasks of the lm-evaluation-harness, asked of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from fourfold.cli.common import console, keep, plain_errors


@plain_errors
def lm_eval(
    model: Annotated[Path, typer.Argument(help="Folder of a saved model and its tokenizer.")],
    tasks: Annotated[str, typer.Option(help="Names of tasks, groups or tags, commas between.")],
    include_path: Annotated[
        Path | None, typer.Option(help="Folder of tasks of your own, as YAML files.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Only so many examples of each task.")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Texts side by side.")] = 1,
    max_length: Annotated[
        int | None,
        typer.Option(min=1, help="Tokens to read of a text, the last; by default all."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="File for the results, as JSON.")] = None,
) -> None:
    """Run tasks of the lm-evaluation-harness on MODEL, on a GPU if there is one.

    Needs the extra lm-eval. Tasks of your own need no network.
    """
    from fourfold.benchmarks.machine import best_device, device_model
    from fourfold.cli.models import open_model
    from fourfold.evaluation.harness import run_harness

    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
    opened, tokenizer = open_model(model)
    device = best_device()
    options = {"limit": limit, "batch_size": batch_size, "max_length": max_length}
    names = [name.strip() for name in tasks.split(",")]
    found = run_harness(
        opened.to(device),  # type: ignore[arg-type]
        tokenizer,
        names,
        include_path=include_path,
        **options,  # type: ignore[arg-type]
    )
    console.print(_table(found))
    keep(
        out,
        {
            "tasks": names,
            "options": options,
            "configuration": opened.config.identity(),
            "parameters": opened.num_parameters(),
            "device": device_model(device),
            "results": found["results"],
            "groups": found.get("groups", {}),
            "examples": found["n-samples"],
            "shots": found["n-shot"],
            "task_versions": found["versions"],
            "lm_eval_version": found["lm_eval_version"],
        },
    )


def _table(found: dict[str, Any]) -> Table:
    """A row for each measure of each task."""
    table = Table("task", "measure", header_style="bold")
    for title in ("value", "standard error", "examples"):
        table.add_column(title, justify="right")
    for task, scores in found["results"].items():
        for name, value in scores.items():
            measure, comma, filtered = name.partition(",")
            if not comma or measure.endswith("_stderr"):
                continue
            error = scores.get(f"{measure}_stderr,{filtered}")
            examples = found["n-samples"].get(task, {}).get("effective", "")
            shown = measure if filtered == "none" else f"{measure} ({filtered})"
            table.add_row(task, shown, _number(value), _number(error), str(examples))
    return table


def _number(value: object) -> str:
    return (
        f"{value:.4f}" if isinstance(value, float) else "" if value in (None, "N/A") else str(value)
    )

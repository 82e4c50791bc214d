"""``fourfold evaluate --suite``: questions to any causal model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.table import Table

from fourfold.benchmarks.machine import best_device, device_model
from fourfold.cli.common import console, keep
from fourfold.cli.models import check_vocabulary, open_any_model
from fourfold.evaluation.suites import Row, make_suite
from fourfold.models import FourfoldConfig

COLUMNS = {
    "knowledge": ("part", "disabled", "accuracy", "chance", "nats"),
    "new-knowledge": ("kind", "times", "tokens", "accuracy", "answer_nats", "unread_nats"),
    "icl": ("labels", "shots", "tokens", "accuracy", "lowest", "highest", "chance"),
}
"""What of a row is shown, by suite; all of it is in the file."""


def ask(name: str, folder: Path, data: Path, changes: tuple[str, ...], out: Path | None) -> None:
    """Run a suite, show a row when it is known, and keep all of them.

    Raises:
        OSError, ValueError: the suite, its fields, the data or the model cannot be used.
    """
    suite = make_suite(name, data, changes)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
    model, tokenizer = open_any_model(folder)
    check_vocabulary(model, tokenizer)
    device = best_device()
    model.to(device)  # type: ignore[arg-type]
    rows: list[Row] = []
    with console.status("Asking …") as status:
        for row in suite.run(model, tokenizer):
            rows.append(row)
            status.update(f"Asking … {len(rows)} conditions done")
    console.print(_table(COLUMNS[name], rows))
    config = model.config
    keep(
        out,
        {
            "suite": name,
            "settings": suite.model_dump(mode="json", exclude={"data"}),
            "data": data.name,
            "configuration": config.identity()
            if isinstance(config, FourfoldConfig)
            else config.to_dict(),
            "parameters": model.num_parameters(),
            "device": device_model(device),
            "rows": rows,
        },
    )


def _table(columns: tuple[str, ...], rows: list[Row]) -> Table:
    table = Table(header_style="bold")
    for column in columns:
        table.add_column(column.replace("_", " "))
    for row in rows:
        orders = row.get("orders")
        spread = {"lowest": min(orders), "highest": max(orders)} if orders else {}
        table.add_row(*(_shown(column, (row | spread).get(column)) for column in columns))
    return table


def _shown(column: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return ", ".join(value) or "none"
    if column in ("accuracy", "chance", "lowest", "highest"):
        return f"{100 * value:.1f} %"
    return f"{value:,.4g}" if isinstance(value, float) else str(value)

"""``fourfold prove``: whether a memory layer does what every one must do."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from fourfold.cli.common import console, plain_errors


@plain_errors
def prove(
    memory: Annotated[str, typer.Argument(help="A layer type, perhaps of your own.")],
    changes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[field=value …]", help="Of FourfoldConfig, like head_dim=8."),
    ] = None,
) -> None:
    """Try a memory layer: the same result however its tokens arrive, and that of its oracle.

    In float64, at small sizes. Of your own: fourfold --memory FILE.py prove NAME
    """
    from fourfold.model_fields import as_fields, check_layer
    from fourfold.models import FourfoldConfig
    from fourfold.models.registry import BUILT_IN, LAYER_TYPES, ORACLES
    from fourfold.proof import prove as try_all
    from fourfold.settings import change_fields

    check_layer(memory)
    fields: dict[str, object] = {"hidden_size": 16, "num_attention_heads": 2, "chunk_size": 8}
    change_fields(fields, changes or (), like="head_dim=8")
    config = FourfoldConfig(layer_types=[memory], **as_fields(fields))
    layer, oracle = LAYER_TYPES[memory](config), ORACLES.get(memory)
    table = Table("property", header_style="bold")
    table.add_column("missed by", justify="right")
    findings = list(try_all(layer, oracle))
    for finding in findings:
        missed = "raised" if finding.missed is None else f"{finding.missed:.1e}"
        table.add_row(finding.name, missed if finding.holds else f"[bold red]{missed}[/]")
        if finding.error:
            table.add_row(f"  {escape(finding.error)}", "", style="red")
    console.print(table)
    if oracle is None and memory not in BUILT_IN:
        console.print("It has no oracle: register_layer(…, oracle=…) gives it one.", markup=False)
    if failed := sum(not finding.holds for finding in findings):
        raise ValueError(f"{memory} misses {failed} of {len(findings)} properties.")

"""``fourfold prove``: whether a memory layer does what every one must do."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from fourfold.cli.common import console, plain_errors, say


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
    import torch
    from transformers.utils import logging

    from fourfold.model_fields import as_fields, check_layer
    from fourfold.models import FourfoldConfig
    from fourfold.models.registry import BUILT_IN, LAYER_TYPES, ORACLES
    from fourfold.proof import TOLERANCE
    from fourfold.proof import prove as try_all
    from fourfold.settings import change_fields

    check_layer(memory)
    fields: dict[str, object] = {"hidden_size": 16, "num_attention_heads": 2, "chunk_size": 8}
    change_fields(fields, changes or (), like="head_dim=8")
    config = FourfoldConfig(layer_types=[memory], **as_fields(fields))
    logging.disable_progress_bar()
    torch.manual_seed(0)
    findings = list(try_all(LAYER_TYPES[memory](config), ORACLES.get(memory), config=config))
    table = Table("property", "", header_style="bold")
    table.add_column("missed by", justify="right")
    for finding in findings:
        verdict = "holds" if finding.holds else "[bold red]misses[/]"
        missed = "" if finding.missed is None else f"{finding.missed:.1e}"
        table.add_row(finding.name, verdict, missed)
    console.print(table)
    missing = [finding for finding in findings if not finding.holds]
    for finding in missing:
        if finding.said:
            say(f"{finding.name}: {finding.said}")
    if memory not in BUILT_IN | ORACLES.keys():
        say("It has no oracle: register_layer(…, oracle=…) gives it one.")
    if missing:
        raise ValueError(
            f"{memory} misses {len(missing)} of {len(findings)} properties, each by more than "
            f"{TOLERANCE:g} of the greatest number."
        )
    say(f"{memory} holds all {len(findings)} properties, to {TOLERANCE:g} of the greatest number.")

"""``fourfold plan``: what a training run will take."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from fourfold.cli.common import console, plain_errors, say

if TYPE_CHECKING:
    from fourfold.planning import Plan, Speed
    from fourfold.training.recipe import Recipe


@plain_errors
def plan(
    recipe: Annotated[Path, typer.Argument(help="YAML file; see recipes/.")],
    changes: Annotated[
        list[str] | None,
        typer.Argument(metavar="field=value", help="Like model.layers=12."),
    ] = None,
    tokens: Annotated[
        int | None, typer.Option(min=1, help="To read; by default those of the recipe.")
    ] = None,
    context: Annotated[
        int | None,
        typer.Option(min=1, help="Tokens read from nothing; by default a window."),
    ] = None,
    vocabulary: Annotated[
        int | None,
        typer.Option(min=1, help="Entries of the tokenizer, where it is not at hand."),
    ] = None,
    tokens_per_second: Annotated[
        float | None, typer.Option(help="Measured somewhere, to reckon the time from.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="Where that was; any name.")] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Train a few steps here, and reckon from those.")
    ] = False,
) -> None:
    """Say what a recipe's run takes: parameters, memory, operations and time."""
    from fourfold.planning import make_plan
    from fourfold.training.recipe import read_recipe

    _check_speed(tokens_per_second, device, measure)
    read = read_recipe(recipe, tuple(changes or ()))
    if vocabulary is not None and measure:
        raise ValueError("--measure trains on text, for which it needs the tokenizer itself.")
    entries = vocabulary or _entries(read.tokenizer, measure)
    found = make_plan(read, entries, tokens=tokens, context=context)
    _show_parameters(found)
    _show_memory(found, read)
    _show_operations(found, read)
    if measure:
        speed = _measured(read, found)
        _show_passing(speed)
        _show_time(found, speed.tokens_per_second, _place(speed))
    elif tokens_per_second is not None:
        _show_time(found, tokens_per_second, device)


def _entries(tokenizer: str, measure: bool) -> int:
    from fourfold.data.tokenizers import load_tokenizer, vocabulary_size

    try:
        return vocabulary_size(load_tokenizer(tokenizer))
    except (OSError, ValueError) as error:
        if measure:
            raise
        instead = "To plan without it, give the number of its entries: --vocabulary 50257, say."
        kind = OSError if isinstance(error, OSError) else ValueError
        raise kind(f"{error} {instead}") from error


def _check_speed(tokens_per_second: float | None, device: str | None, measure: bool) -> None:
    if measure and (tokens_per_second is not None or device is not None):
        raise ValueError(
            "--measure says speed and device itself: give it, or --tokens-per-second and --device."
        )
    if device is not None and tokens_per_second is None:
        raise ValueError(f"--device {device} needs --tokens-per-second: how fast it was there.")
    if tokens_per_second is not None and not 0 < tokens_per_second < float("inf"):
        raise ValueError(f"--tokens-per-second must be above 0; got {tokens_per_second:g}.")


def _show_parameters(found: Plan) -> None:
    from fourfold.planning.parameters import described

    config = found.config
    say(
        f"{described(config.layer_types)}; hidden size {config.hidden_size:,}, feed-forward "
        f"{config.intermediate_size:,}, vocabulary {config.vocab_size:,}"
    )
    table = Table(header_style="bold")
    table.add_column("parameters")
    for title in ("", "share"):
        table.add_column(title, justify="right")
    total = sum(found.parameters.values())
    for part, count in found.parameters.items():
        name = "output (is the embedding)" if part == "output" and not count else part
        table.add_row(name, f"{count:,}", f"{count / total:.1%}")
    table.add_section()
    table.add_row("all", f"{total:,}", "", style="bold")
    console.print(table)


def _show_memory(found: Plan, recipe: Recipe) -> None:
    carried = found.carried
    memory = [f"Memory of one sequence: {carried.fixed:,} bytes"]
    for growth in carried.growing:
        until = "" if growth.limit is None else f", up to {growth.limit:,} of them"
        behind = f" behind the first {growth.first}" if growth.first else ""
        memory.append(f"and {growth.per_token:,} for each token{behind}{until}")
    length = recipe.training.sequence_length
    whole = f": {carried.after(length):,} after {length:,}" if carried.growing else ""
    memory += [] if carried.growing else ["however long it is"]
    say(f"{', '.join(memory)}{whole}.")
    parts = ", ".join(f"{name} {size:,}" for name, size in found.training_bytes.items())
    kept = sum(found.training_bytes.values())
    say(f"Training keeps {kept:,} bytes ({kept / 1e9:.3g} GB): {parts}.")


def _show_operations(found: Plan, recipe: Recipe) -> None:
    table = Table(header_style="bold")
    table.add_column("FLOPs a token, forward")
    table.add_column(f"mean over {found.context:,} tokens", justify="right")
    for part, count in found.forward_flops.items():
        table.add_row(part, f"{count:,.0f}")
    table.add_section()
    table.add_row("all", f"{sum(found.forward_flops.values()):,.0f}", style="bold")
    console.print(table)
    again = ", layers forward once more" if recipe.training.gradient_checkpointing else ""
    say(
        f"Training: {found.training_flops:,.0f} FLOPs a token (forward and twice that "
        f"backward{again}); {found.training_flops * found.tokens:.3g} for {found.tokens:,} tokens."
    )


def _measured(recipe: Recipe, found: Plan) -> Speed:
    from fourfold.planning import measure_speed

    with console.status("Training a few steps on random tokens"):
        return measure_speed(recipe, found.config)


def _place(speed: Speed) -> str:
    if speed.threads is None:
        return speed.device
    return f"{speed.device}, {speed.threads} thread{'' if speed.threads == 1 else 's'}"


def _show_passing(speed: Speed) -> None:
    say(
        f"A forward and backward pass over {speed.window_tokens:,} tokens takes "
        f"{speed.passing_bytes:,} bytes ({speed.passing_bytes / 1e9:.3g} GB) more at its peak, "
        f"{speed.passing_bytes / speed.window_tokens:,.0f} a token (measured)."
    )


def _show_time(found: Plan, tokens_per_second: float, place: str | None) -> None:
    seconds = found.tokens / tokens_per_second
    where = f" on {place}" if place else ""
    say(
        f"At {tokens_per_second:,.0f} tokens a second{where} "
        f"({found.training_flops * tokens_per_second:.3g} FLOPs a second), "
        f"{found.tokens:,} tokens take {_duration(seconds)}."
    )


def _duration(seconds: float) -> str:
    """In the largest unit of which there are two at least."""
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:.1f} seconds"

"""What all commands share."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import typer
from rich.console import Console

from fourfold.results import provenance, write_result

console = Console(highlight=False, emoji=False)

Command = TypeVar("Command", bound=Callable[..., Any])


def say(*lines: str) -> None:
    """Print lines as they are, however long."""
    for line in lines:
        console.print(line, soft_wrap=True, markup=False)


def keep(out: Path | None, result: dict[str, Any]) -> None:
    """Write ``result`` and where it comes from to the file asked for, if one was, and say so."""
    if out is not None:
        write_result(out, result | provenance())
        say(f"Results: {out}")


def given(context: typer.Context, names: Iterable[str]) -> list[str]:
    """Those options that the user gave."""
    sources = {name: context.get_parameter_source(name) for name in names}
    return [name for name, source in sources.items() if source and source.name != "DEFAULT"]


def plain_errors(command: Command) -> Command:
    """Show what a user did wrong as one sentence, not as a traceback."""

    @wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        logging.basicConfig(format="%(message)s")
        for stream in (sys.stdin, sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")  # a terminal may know fewer letters
        try:
            return command(*args, **kwargs)
        except (ValueError, ArithmeticError, OSError) as error:
            typer.echo(f"fourfold: {error}", err=True)
            raise typer.Exit(1) from error

    return wrapped  # type: ignore[return-value]

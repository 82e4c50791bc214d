"""``fourfold train``: progress while it trains, and how to go on when it stops."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.progress import Progress
from transformers.utils import logging

from fourfold.cli.bars import bars
from fourfold.cli.common import console, say
from fourfold.training.events import Listener, Stopped, Update
from fourfold.training.recipe import Recipe
from fourfold.training.trainer import Trainer

STOPPED = 130
"""Exit status after Ctrl-C, as shells have it."""


def run_training(recipe: Recipe, out: Path) -> None:
    """Train, show, and say where everything is."""
    logging.disable_progress_bar()
    with _interrupted(
        "Stopped while the run was prepared. Nothing is lost; text that was not yet whole is read "
        "again."
    ):
        trainer = _prepared(recipe, out)
    if trainer.first:
        _introduce(trainer)
    with (
        _interrupted(f"Stopped at once; the run goes on from the last checkpoint in {out}."),
        bars(remaining=True) as progress,
    ):
        bar = progress.add_task(
            recipe.model.layer or "training",
            total=trainer.training.total_steps,
            visible=trainer.first and console.is_terminal,
            figures="",
        )
        try:
            result = trainer.run(_Display(progress, bar).listener())
        except Stopped as stopped:
            progress.stop()
            if trainer.first:
                say(
                    *trainer.left_out(),
                    f"Stopped after step {stopped.step:,}; all of it is saved in {out}. "
                    f"To go on: {_same_command()}",
                )
            raise typer.Exit(STOPPED) from stopped
        except (ArithmeticError, OSError, ValueError):
            progress.stop()
            if trainer.first:
                say(*trainer.left_out())
            raise
    if trainer.first:
        say(
            *trainer.left_out(),
            f"{result['tokens']:,} tokens read. Validation: "
            f"{result['validation_bits_per_byte']:.4f} bits per byte. Model: {out / 'model'}",
        )


def _prepared(recipe: Recipe, out: Path) -> Trainer:
    """The run with its text and its model ready."""
    with console.status("Preparing …") as status:

        def show(what: str, done: int, total: int | None) -> None:
            share = f" of {total:,}" if total else ""
            status.update(f"{what.capitalize()}: {done:,}{share} bytes")

        return Trainer(recipe, out, show)


@contextmanager
def _interrupted(sentence: str) -> Iterator[None]:
    """Say on Ctrl-C how things are and how to go on, and end."""
    try:
        yield
    except KeyboardInterrupt as error:
        if os.environ.get("RANK", "0") == "0":
            say(f"{sentence} To go on: {_same_command()}")
        raise typer.Exit(STOPPED) from error


def _introduce(trainer: Trainer) -> None:
    training = trainer.training
    say(
        f"{trainer.parameters:,} parameters; {training.total_steps:,} steps of "
        f"{training.tokens_per_step:,} tokens, {training.batch_size} sequences side by side.",
        *trainer.text.report.lines(),
    )


def _same_command() -> str:
    """The command that was given; who launched several processes is not known here."""
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    if processes > 1:
        return f"the same command again, with {processes} processes."
    return shlex.join(["fourfold", *sys.argv[1:]])


class _Display:
    """A bar in a terminal; a line now and then where there is none."""

    def __init__(self, progress: Progress, bar: object) -> None:
        self.progress, self.bar = progress, bar
        self.validation = ""

    def listener(self) -> Listener:
        return Listener(
            prepared=self._prepared, updated=self._updated, validated=self._validated, noted=say
        )

    def _prepared(self, trainer: Trainer, step: int) -> None:
        if step:
            say(f"Going on after step {step:,}.")
        self.progress.update(self.bar, completed=step)  # type: ignore[arg-type]

    def _updated(self, update: Update) -> None:
        figures = (
            f"{update.loss:.3f} nats/token, {update.bits_per_byte:.3f} bits/byte"
            f"{self.validation}, {update.tokens_per_second:,.0f} tokens/s"
        )
        self.progress.update(self.bar, completed=update.step, figures=figures)  # type: ignore[arg-type]
        if not console.is_terminal and update.step % max(1, update.steps // 20) == 0:
            left = (update.steps - update.step) * update.tokens / update.step
            minutes = left / update.tokens_per_second / 60
            say(f"step {update.step:,}: {figures}, {minutes:,.1f} minutes left")

    def _validated(self, bits: float) -> None:
        self.validation = f" (validation {bits:.3f})"

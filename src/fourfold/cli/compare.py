"""``fourfold compare``: progress while it trains, a table when it is done."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.table import Table
from transformers.utils import logging

from fourfold.cli.bars import bars
from fourfold.cli.common import console, say
from fourfold.comparison import ComparisonOptions, model_configurations, run_model, with_steps
from fourfold.data import Corpus
from fourfold.reports import read_comparison, table_rows, write_report
from fourfold.training import Step


def run_comparison(
    *,
    corpus: Corpus,
    out: Path,
    steps: int,
    learning_rate: float,
    seed: int,
    also: Sequence[str] = (),
) -> None:
    """Train, measure, print, write the report."""
    logging.disable_progress_bar()
    say(
        f"Text: {corpus.name}, {len(corpus.train):,} bytes in {corpus.train_documents} "
        f"documents to train on, {len(corpus.validation):,} in {corpus.validation_documents} "
        f"others to measure with."
    )
    say(*corpus.notes)
    options = with_steps(ComparisonOptions(seed=seed), steps)
    training = replace(options.training, learning_rate=learning_rate, seed=seed)
    options = replace(options, training=training)
    configurations = model_configurations(options, also)
    with bars(remaining=True) as progress:
        tasks = {name: progress.add_task(name, total=steps, figures="") for name in configurations}
        for name, config in configurations.items():

            def show(step: Step, task: Any = tasks[name]) -> None:
                loss = f"{step.loss / math.log(2):.3f} bits"
                figures = f"{loss}, {step.tokens_per_second:,.0f} tokens/s"
                progress.update(task, completed=step.step, figures=figures)

            run_model(name, config, corpus, options, out / config.layer_types[0], show)
            if progress.tasks[tasks[name]].completed < steps:
                progress.update(tasks[name], completed=steps, figures="already finished")
    results = read_comparison(out)
    console.print(comparison_table(results))
    say(f"Report:  {write_report(out)}")
    say(f"Models and results:  {out}/*/")


def comparison_table(results: list[dict[str, Any]]) -> Table:
    """The results as a table for the terminal."""
    header, *rows = table_rows(results)
    table = Table(header_style="bold")
    for index, title in enumerate(header):
        table.add_column(title, justify="left" if index == 0 else "right")
    for row in rows:
        table.add_row(*row)
    return table

"""The tables of a grid as Markdown, for pages that are kept beside the code."""

from __future__ import annotations

from fourfold.grid.cell import TESTS
from fourfold.reports.markdown import markdown_table
from fourfold.reports.tasks.gaps import count_table, diverged_cells, missing_cells
from fourfold.reports.tasks.mixture_table import mixture_table, mixtures
from fourfold.reports.tasks.other_tables import model_table, rate_table, task_table
from fourfold.reports.tasks.results import GridResults
from fourfold.reports.tasks.score_table import score_table, short_table
from fourfold.reports.tasks.table import Entry, Table
from fourfold.reports.tasks.wording import (
    MEASURES,
    SCORES,
    SPLITS,
    rate_caption,
    state_caption,
)


def short_markdown(results: GridResults) -> str:
    """One table: exact match IID, and the means of all splits."""
    return _table(short_table(results))


def full_markdown(results: GridResults) -> str:
    """Every table of the page, each under a heading, and what is missing."""
    blocks = ["### Models", state_caption(results), _table(model_table(results))]
    blocks += ["### Tasks", _table(task_table(results))]
    for measure, title in MEASURES.items():
        for split in TESTS:
            blocks.append(f"### {title}, {SPLITS[split]}")
            if (measure, split) == ("exact_match", "iid"):
                blocks.append(SCORES)
            blocks.append(_table(score_table(results, split, measure)))
    for name in mixtures(results):
        for split in TESTS:
            blocks.append(f"### Exact match within {name}, {SPLITS[split]}")
            blocks.append(_table(mixture_table(results, name, split)))
    blocks += ["### Rates", rate_caption(results), _table(rate_table(results))]
    if missing := missing_cells(results):
        blocks += ["### Not finished", _table(count_table(results)), _bullets(missing)]
    if lost := diverged_cells(results, counted=True):
        blocks += ["### Diverged, counted as exact match 0", _bullets(lost)]
    if lost := diverged_cells(results, counted=False):
        blocks += ["### Diverged at a rate that was not chosen", _bullets(lost)]
    if results.unused:
        blocks += ["### Files of no cell of this grid", _bullets([*map(str, results.unused)])]
    return "\n\n".join(blocks)


def _table(content: Table) -> str:
    header = [_escape(title) for title in content.header]
    rows = [[_entry(entry) for entry in row] for row in content.rows]
    return markdown_table(header, rows, words=content.words)


def _entry(entry: Entry) -> str:
    text = f"**{_escape(entry.text)}**" if entry.best else _escape(entry.text)
    return f"{text} ({_escape('; '.join(entry.notes))})" if entry.notes else text


def _escape(text: str) -> str:
    """Without signs that would end a place of the table or begin a tag."""
    return text.replace("|", "\\|").replace("<", "&lt;")


def _bullets(lines: list[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)

"""A grid as one page that needs nothing beside itself."""

from __future__ import annotations

from html import escape

from fourfold.grid.cell import TESTS
from fourfold.reports.style import STYLE
from fourfold.reports.tasks import markup
from fourfold.reports.tasks.figures import Plate, as_svgs, legend_svgs, plates
from fourfold.reports.tasks.gaps import count_table, diverged_cells, missing_cells
from fourfold.reports.tasks.mixture_table import mixture_table, mixtures
from fourfold.reports.tasks.origin import origin
from fourfold.reports.tasks.other_tables import model_table, rate_table, task_table
from fourfold.reports.tasks.results import GridResults
from fourfold.reports.tasks.score_table import score_table
from fourfold.reports.tasks.scores import Measure
from fourfold.reports.tasks.table import count
from fourfold.reports.tasks.wording import (
    DEFINITIONS,
    FIGURES,
    MEASURES,
    MIXTURE,
    SCORES,
    SPLITS,
    rate_caption,
    state_caption,
)

TASKS_STYLE = """
body { max-width: 66rem; }
h3 { font-size: 1rem; margin: 1.6rem 0 .3rem; }
th, td { padding: .3rem .5rem; vertical-align: top; } th { vertical-align: bottom; }
th.words, td.words { text-align: left; } td.words:not(:first-child) { white-space: normal; }
tr.foot td { border-top: 2px solid #b9b4a6; }
th:first-child, td:first-child { position: sticky; left: 0; background: #fbfaf7; }
td small { display: block; font-size: .75rem; line-height: 1.35; color: #55606a; }
td small span { display: block; }
mark { background: #fbe3bd; color: inherit; padding: 0 .15rem; }
.lead mark { padding: .1rem .3rem; }
.plate { display: grid; gap: 1rem; align-items: start;
         grid-template-columns: repeat(auto-fill, minmax(min(100%, 20rem), 1fr)); }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.3rem; padding: 0; list-style: none;
          font-size: .9rem; }
.legend svg { width: 3.1rem; vertical-align: -.15rem; margin-right: .35rem; }
dt { font-weight: 600; } dd { margin: 0 0 .5rem; overflow-wrap: anywhere; }
details { margin: .6rem 0; } summary { cursor: pointer; font-weight: 600; }
"""


def page(results: GridResults) -> str:
    """The whole page as HTML."""
    drawn = {plate.name: plate for plate in plates(results)}
    sections = [
        ("Models", markup.paragraph(state_caption(results)) + markup.table(model_table(results))),
        ("Exact match", markup.paragraph(SCORES) + _score_tables(results, "exact_match")),
        *(
            (plate.title, markup.paragraph(FIGURES[name]) + _plate(plate))
            for name, plate in drawn.items()
        ),
        *(
            (f"{name}, task by task", markup.paragraph(MIXTURE) + _mixture_tables(results, name))
            for name in mixtures(results)
        ),
        ("Rates", markup.paragraph(rate_caption(results)) + markup.table(rate_table(results))),
        ("Token accuracy and cross-entropy", _further_tables(results)),
        ("What is missing", _gaps(results)),
        ("Tasks", markup.table(task_table(results))),
        ("What the words mean", markup.definitions(DEFINITIONS)),
        ("How it was made", markup.definitions(origin(results))),
    ]
    body = "\n".join(f"<h2>{escape(title)}</h2>\n{content}" for title, content in sections)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>fourfold: which memory reads, remembers, revises and rewrites?</title>
<style>{STYLE}{TASKS_STYLE}</style>
</head>
<body>
<h1>Which memory reads, remembers, revises and rewrites?</h1>
{_lead(results)}
{body}
<p>All figures on this page are drawn from the result files below <code>cells</code> beside it; the
pictures are in <code>figures</code> too.</p>
</body>
</html>
"""


def _lead(results: GridResults) -> str:
    grid, done, total = results.grid, len(results.cells), results.schedule.total()
    state = (
        "All of it is finished."
        if done == total
        else f"<mark>Not finished: {done:,} of {count(total, 'cell')}.</mark>"
    )
    return (
        f'<p class="lead">{count(len(grid.models), "model")} of about {grid.parameters:,} '
        f"parameters, each trained from scratch on {count(len(grid.tasks), 'synthetic task')}, "
        f"{count(grid.training.steps, 'step')} each, and asked about examples that it never "
        f"trained on. {state}</p>"
    )


def _score_tables(results: GridResults, measure: Measure) -> str:
    return "\n".join(
        f"<h3>{MEASURES[measure]}, {SPLITS[split]}</h3>\n"
        + markup.table(score_table(results, split, measure))
        for split in TESTS
    )


def _mixture_tables(results: GridResults, name: str) -> str:
    return "\n".join(
        f"<h3>{SPLITS[split]}</h3>\n" + markup.table(mixture_table(results, name, split))
        for split in TESTS
    )


def _further_tables(results: GridResults) -> str:
    measures: tuple[Measure, ...] = ("token_accuracy", "cross_entropy")
    return "\n".join(
        markup.fold(f"{MEASURES[measure]}, three tables", _score_tables(results, measure))
        for measure in measures
    )


def _plate(plate: Plate) -> str:
    legend = "".join(
        f"<li>{element}{escape(name)}</li>" for name, element in legend_svgs(plate).items()
    )
    panels = "\n".join(f"<div>{element}</div>" for element in as_svgs(plate))
    return f'<ul class="legend">{legend}</ul>\n<div class="plate">\n{panels}\n</div>'


def _gaps(results: GridResults) -> str:
    blocks = []
    if missing := missing_cells(results):
        blocks.append(
            markup.paragraph(
                "Finished cells of those that belong to each task and model. A cell that is not "
                "finished was not run yet, or could not be run."
            )
        )
        blocks.append(markup.table(count_table(results)))
        blocks.append(
            markup.fold(f"{count(len(missing), 'gap')}, one by one", markup.bullets(missing))
        )
    else:
        blocks.append(markup.paragraph("Every cell of the grid is finished."))
    if lost := diverged_cells(results, counted=True):
        blocks.append(
            markup.paragraph("Diverged at the chosen rate; each counts as exact match 0:")
        )
        blocks.append(markup.bullets(lost))
    if lost := diverged_cells(results, counted=False):
        title = f"{count(len(lost), 'training')} diverged at a rate that was not chosen"
        blocks.append(markup.fold(title, markup.bullets(lost)))
    if results.unused:
        blocks.append(
            markup.paragraph("Result files that belong to no cell of this grid and are not used:")
        )
        blocks.append(markup.bullets(map(str, results.unused)))
    return "\n".join(blocks)

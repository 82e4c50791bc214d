"""The report of a grid says what its result files say, and what is missing."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from statistics import fmean

import pytest
import yaml
from report_cells import make_result, small_grid, write_cells
from typer.testing import CliRunner

from fourfold.cli import app
from fourfold.grid import Cell
from fourfold.grid.cell import write_cell
from fourfold.reports.tasks import (
    full_markdown,
    read_results,
    short_markdown,
    write_task_report,
)
from fourfold.reports.tasks.figures import plates
from fourfold.reports.tasks.page import page

ATPM, LSTM, COMBA = "ATPM", "<b>LSTM</b> & co", "Comba"
BEST = 0.003


def skill(cell: Cell) -> float | None:
    """ATPM is best at the middle rate and diverges at the greatest; the LSTM learns little."""
    if cell.model == ATPM and cell.rate == 0.01:
        return None
    if cell.model == LSTM:
        return 0.02 if cell.rate < 0.01 else 0.5
    return 0.97 if cell.rate == BEST else 0.3


class Page(HTMLParser):
    """Tables of a page as lists of rows of texts, and everything that it would fetch."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self.fetched: list[str] = []
        self.tags: list[str] = []
        self.inside = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.fetched += [
            value
            for name, value in attrs
            if name in ("src", "href", "xlink:href", "srcset") and not value.startswith("#")
        ]
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
            self.inside = True
        elif tag in ("small", "span") and self.inside:
            self.tables[-1][-1][-1] += " "

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.tables[-1][-1][-1] += data


def markdown_tables(text: str) -> list[list[list[str]]]:
    """Rows of texts, without the rule and without marks."""
    tables = []
    for block in re.findall(r"(?:^\|.*\n?)+", text, flags=re.MULTILINE):
        rows = [line.strip("| ").split(" | ") for line in block.strip().splitlines()]
        tables.append([row for row in rows if not set("".join(row)) <= set("-: ")])
    return tables


def words(text: str) -> list[str]:
    """What an entry says, however it is set."""
    text = text.replace("&lt;", "<").replace("**", "").replace("\xa0", " ")
    return re.sub(r"[(),;]|\s", " ", text).split()


@pytest.fixture(scope="module")
def grid():
    return small_grid()


@pytest.fixture(scope="module")
def folder(grid, tmp_path_factory):
    """Everything is finished."""
    folder = tmp_path_factory.mktemp("finished")
    write_cells(grid, folder, skill, skip=lambda cell: False)
    return folder


@pytest.fixture(scope="module")
def drawn(grid, folder):
    """The page of it."""
    return page(read_results(grid, folder))


def results_of(folder, task, slug, rate, seeds):
    """Straight from the files."""
    path = folder / "cells" / task / slug
    return [json.loads((path / f"rate-{rate}-seed-{seed}.json").read_text()) for seed in seeds]


def row(text: str, heading: str, name: str) -> list[str]:
    """A row of the first table below a heading."""
    section = text[text.index(f"### {heading}\n") :]
    (table, *_) = markdown_tables(section)
    (found,) = [entries[1:] for entries in table if entries[0] == name]
    return found


@pytest.mark.parametrize(("split", "title"), [("iid", "IID"), ("ood", "OOD"), ("stress", "Stress")])
def test_figures_are_those_of_the_files(grid, folder, split, title):
    text = full_markdown(read_results(grid, folder))
    means = []
    for task in grid.tasks:
        runs = results_of(folder, task, "atpm", BEST, (0, 1))
        values = [run["tests"][split]["exact_match"] for run in runs]
        left = sum(run["tests"]["iid"]["exact_match"] > 0.5 for run in runs)
        expected = f"{100 * fmean(values):.1f} ({100 * min(values):.1f}–{100 * max(values):.1f}; "
        entry = row(text, f"Exact match, {title}", task)[0]
        assert entry.replace("**", "") == f"{expected}{left}/2)"
        means.append(fmean(values))
        (single,) = results_of(folder, task, "comba", BEST, (0,))
        low, high = single["tests"][split]["exact_match_interval"]
        assert f"[{100 * low:.1f}–{100 * high:.1f}]" in row(text, f"Exact match, {title}", task)[2]
        losses = [run["tests"][split]["cross_entropy"] for run in runs]
        entry = row(text, f"Cross-entropy, {title}", task)[0]
        assert entry.replace("**", "").startswith(f"{fmean(losses):.3f} (")
    mean = row(text, f"Exact match, {title}", "mean")[0]
    assert mean.replace("**", "").startswith(f"{100 * fmean(means):.1f} (")


def test_best_of_each_row_is_bold(grid, folder):
    for entries in markdown_tables(short_markdown(read_results(grid, folder)))[0][1:]:
        figures = [float(re.findall(r"[\d.]+", entry)[0]) for entry in entries[1:]]
        bold = [entry.startswith("**") for entry in entries[1:]]
        assert bold == [figure == max(figures) and len(set(figures)) > 1 for figure in figures]
    loss = row(full_markdown(read_results(grid, folder)), "Cross-entropy, IID", "overwrite")
    figures = [float(re.findall(r"[\d.]+", entry)[0]) for entry in loss]
    assert [entry.startswith("**") for entry in loss] == [f == min(figures) for f in figures]


def test_the_chosen_rate_is_the_best_on_validation_and_an_edge_is_marked(grid, folder):
    text = full_markdown(read_results(grid, folder))
    for task in grid.tasks:
        atpm, lstm = row(text, "Rates", task)
        assert atpm.startswith("0.003 (")
        assert atpm.endswith("· div.)")
        assert lstm.startswith("0.01 (edge) (")
        for rate, shown in zip(grid.rates, re.findall(r"[\d.]+(?= ·|\))", lstm), strict=True):
            (run,) = results_of(folder, task, "b-lstm-b-co", f"{rate:g}", (0,))
            assert shown == f"{100 * run['validation']['exact_match']:.1f}"


def test_the_page_says_what_the_markdown_says(grid, folder, drawn):
    html = [
        [[words(entry) for entry in entries] for entries in table] for table in Page(drawn).tables
    ]
    markdown = markdown_tables(full_markdown(read_results(grid, folder)))
    assert len(markdown) == 15
    for table in markdown:
        assert [[words(entry) for entry in entries] for entries in table] in html


def test_the_page_needs_nothing_else_and_says_names_letter_by_letter(drawn):
    parsed = Page(drawn)
    assert parsed.fetched == []
    assert not {"script", "link", "img", "iframe"} & set(parsed.tags)
    assert not re.search(r"@import|url\((?!#)", drawn)
    assert 'name="viewport"' in drawn
    assert "<b>LSTM" not in drawn
    assert drawn.count("&lt;b&gt;LSTM&lt;/b&gt; &amp; co") > 10


def test_figures_have_a_panel_for_each_task(grid, folder):
    drawn = {
        plate.name: [panel.title for panel in plate.panels]
        for plate in plates(read_results(grid, folder))
    }
    tasks = list(grid.tasks)
    assert drawn == {
        "load": tasks,
        "parts": [f"overwrite, {split}" for split in ("IID", "OOD", "Stress")],
        "learning-loss": tasks,
        "learning-accuracy": tasks,
    }


def test_a_run_that_diverged_at_the_chosen_rate_counts_as_nothing(grid, tmp_path):
    lost = Cell("overwrite", ATPM, BEST, 1)
    write_cells(grid, tmp_path, lambda c: None if c == lost else skill(c), skip=lambda c: False)
    text = full_markdown(read_results(grid, tmp_path))
    (run,) = results_of(tmp_path, "overwrite", "atpm", BEST, (0,))
    match = run["tests"]["iid"]["exact_match"]
    entry = row(text, "Exact match, IID", "overwrite")[0].replace("**", "")
    assert entry == f"{50 * match:.1f} (0.0–{100 * match:.1f}; 1/2; 1 diverged)"
    loss = row(text, "Cross-entropy, IID", "overwrite")[0].replace("**", "")
    assert loss == f"{run['tests']['iid']['cross_entropy']:.3f} (1 diverged)"
    counted, searched = text.split("### Diverged, counted as exact match 0")[1].split("###")
    assert counted.strip() == f"- {lost}: at step 50"
    assert f"- {Cell('overwrite', ATPM, 0.01, 0)}: at step 50" in searched


def test_what_is_missing_is_named(grid, tmp_path):
    def skip(cell: Cell) -> bool:
        search = cell.task == "mixed_all" and cell.model == ATPM and cell.rate == 0.01
        seed = cell.task == "overwrite" and cell.model == LSTM and cell.seed == 1
        return search or seed or (cell.task == "overwrite" and cell.model == COMBA)

    write_cells(grid, tmp_path, skill, skip)
    results = read_results(grid, tmp_path)
    text = full_markdown(results)
    overwrite, mixed = (row(text, "Exact match, IID", task) for task in grid.tasks)
    assert "1 missing" in overwrite[1]
    assert overwrite[2] == "– (0 of 1 seed)"
    assert mixed[0] == "– (2 of 3 rates)"
    assert mixed[2] == "– (rate open)"
    means = row(text, "Exact match, IID", "mean")
    assert means[0] == "– (1 of 2 rows)"
    assert "1 missing" in means[1]
    assert means[2] == "– (0 of 2 rows)"
    assert row(text, "Not finished", "overwrite") == ["4/4", "3/4", "0/1"]
    assert row(text, "Not finished", "mixed_all") == ["2/4", "4/4", "0/1"]
    for line in (
        f"overwrite, {LSTM}: seed 1 at rate 0.01",
        "overwrite, Comba: seed 0 at rate 0.003, that of ATPM",
        "mixed_all, ATPM: rate 0.01 of the search, then seed 1 at the best",
        "mixed_all, Comba: seed 0, which wait for the rate of ATPM",
    ):
        assert f"- {line}\n" in text + "\n"
    assert "Not finished: 13 of 18 cells." in page(results)


def test_files_of_no_cell_are_named(grid, tmp_path):
    write_cells(grid, tmp_path, skill, skip=lambda cell: False)
    other = Cell("overwrite", COMBA, 0.01, 0)
    write_cell(other, tmp_path, make_result(grid, other, 0.5))
    results = read_results(grid, tmp_path)
    assert results.unused == (other.path,)
    assert f"- {other.path}" in full_markdown(results)


def test_a_grid_of_one_rate_and_one_model_without_changes_has_a_report(tmp_path):
    grid = small_grid(
        tasks=["copy"], models={"a $b$ c": {"layer": "lstm"}}, rates=[0.003], seeds=[0]
    )
    write_cells(grid, tmp_path, lambda cell: None, skip=lambda cell: False)
    write_task_report(grid, tmp_path)
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert names == {"load.png", "learning-loss.png", "learning-accuracy.png"}
    assert "the only one that was tried" in (tmp_path / "report.html").read_text()


def invoke(*arguments):
    return CliRunner().invoke(app, ["tasks", *map(str, arguments)])


def test_the_commands_keep_the_grid_and_write_the_report_or_print_tables(
    grid, folder, drawn, tmp_path
):
    refused = invoke("report", folder)
    assert refused.exit_code == 1
    assert "holds no grid.yaml; say with --config" in refused.stderr

    content = grid.model_dump(mode="json")
    config = tmp_path / "mine.yaml"
    config.write_text(yaml.safe_dump(content, sort_keys=False))
    run = invoke("run", config, "--out", folder)
    assert run.exit_code == 0, run.output
    assert "18 of 18 cells are finished already" in run.output
    assert (folder / "grid.yaml").read_bytes() == config.read_bytes()

    table = invoke("report", folder, "--table", "short")
    assert table.exit_code == 0, table.output
    assert table.stdout == short_markdown(read_results(grid, folder)) + "\n"
    assert not (folder / "report.html").exists()
    assert invoke("report", folder, "--table", "full").stdout.startswith("### Models\n")
    assert "must be short or full" in invoke("report", folder, "--table", "long").stderr

    written = invoke("report", folder)
    assert written.exit_code == 0, written.output
    assert (folder / "report.html").read_text() == drawn
    for path in (folder / "figures").iterdir():
        assert path.read_bytes().startswith(b"\x89PNG")

    content["training"]["steps"] = 107
    config.write_text(yaml.safe_dump(content, sort_keys=False))
    other = invoke("report", folder, "--config", config)
    assert other.exit_code == 1
    assert "rate-0.001-seed-0.json is of other settings" in other.stderr
    nothing = invoke("report", tmp_path, "--config", config)
    assert "holds no result of this grid" in nothing.stderr


def test_a_mixture_is_shown_task_by_task(grid, folder, drawn):
    text = full_markdown(read_results(grid, folder))
    runs = results_of(folder, "mixed_all", "atpm", BEST, [0, 1])
    for task in runs[0]["tests"]["iid"]["by_task"]:
        shares = [
            run["tests"]["iid"]["by_task"][task]["exact_match"]
            for run in runs
            if task in run["tests"]["iid"]["by_task"]
        ]
        (atpm, *_) = row(text, "Exact match within mixed_all, IID", task)
        assert words(atpm) == [f"{100 * fmean(shares):.1f}"]
    assert "task within mixed_all" in {table[0][0] for table in Page(drawn).tables}

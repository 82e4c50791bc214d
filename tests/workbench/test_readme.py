"""What the README shows is what happens."""

from __future__ import annotations

import re
from pathlib import Path

from result_scripts import script

from fourfold.grid import read_grid
from fourfold.reports import comparison_markdown, read_comparison
from fourfold.reports.benchmarks import markdown
from fourfold.reports.tasks import full_markdown, read_results, short_markdown

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_table_is_drawn_from_the_committed_results():
    assert comparison_markdown(read_comparison(ROOT / "results" / "demo")) in README


def test_the_example_runs_and_remembers(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (example, *_) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    variables: dict = {}
    exec(compile(example, "README.md", "exec"), variables)
    assert capsys.readouterr().out == "Paris.\n"
    assert variables["again"].generate("in ", max_new_tokens=6) == "Paris."


def test_every_dependency_has_its_reason():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    listed = re.findall(r'^    "([a-z-]+)[<>=]', project, flags=re.MULTILINE)
    listed += re.findall(r'"([a-z-]+)>=', project[project.index("dev = [") :])
    assert len(listed) > 10
    reasons = README[README.index("## Dependencies") :]
    assert [name for name in listed if name not in reasons] == []


def test_the_tables_of_the_performance_page_are_drawn_from_the_committed_results():
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    for name in ("ops", "step"):
        assert markdown(ROOT / "results" / "bench" / f"{name}.json") in page


def test_the_tables_of_the_memory_tasks_are_drawn_from_the_committed_results():
    folder = ROOT / "results" / "tasks"
    results = read_results(read_grid(folder / "grid.yaml"), folder)
    assert short_markdown(results) in README
    assert full_markdown(results) in (ROOT / "docs" / "tasks.md").read_text(encoding="utf-8")


def test_the_tables_of_the_language_runs_are_drawn_from_the_committed_results():
    report = script("language/report")
    runs = report.read_runs(ROOT / "results" / "language")
    page = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    assert report.table(runs) in page
    assert report.samples(runs, "Franz-Kafka-The-Trial", 0.8) in page

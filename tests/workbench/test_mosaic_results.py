"""The scripts that measure and draw the run of Memory Mosaics, on a run of two steps."""

from __future__ import annotations

import json

import pytest
from result_scripts import run_grid, script

LOADS = {"iid": [2, 2], "ood": [3, 3], "stress": [4, 4]}
GRID = {
    "tasks": {"documents": {"loads": LOADS}, "closed_book": {}, "label_map": {}},
    "models": {"Mosaic": {"layer": "mosaic"}, "Transformer": {"layer": "attention"}},
    "parameters": 12_000,
    "layers": 1,
    "fields": {
        "hidden_size": 16,
        "num_attention_heads": 1,
        "mosaic_window": 8,
        "mosaic_delay": 2,
    },
    "rates": [0.003],
    "training": {"steps": 2, "batch_size": 2, "warmup_steps": 1},
    "evaluation": {"examples": 2, "validation_examples": 2, "curve_points": 1},
    "keep_models": True,
}
SMALL = {"EXAMPLES": 2, "TIMES": (1, 2), "SHOTS": (1, 2), "ADAPTED": (1, 2)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return run_grid(GRID, tmp_path_factory.mktemp("mosaics"))


@pytest.fixture
def measure():
    return script("mosaics/knowledge/measure", **SMALL)


def test_what_is_trained_is_measured_once_with_the_long_memory_and_without(folder, measure):
    measure.main(folder)
    found = {path: json.loads(path.read_text()) for path in folder.glob("measures/*/*/*.json")}
    assert len(found) == 6
    by_task = {(result["task"], result["model"]): result for result in found.values()}
    rows = by_task["documents", "Mosaic"]["rows"]
    assert [(row["disabled"], row["times"]) for row in rows] == [
        ([], 1), ([], 2), (["long"], 1), (["long"], 2)
    ]  # fmt: skip
    assert {tuple(row["disabled"]) for row in by_task["documents", "Transformer"]["rows"]} == {()}
    for going in by_task["documents", "Transformer"]["adaptation"]:
        assert [point["steps"] for point in going["points"]] == [0, 1, 2]
    shares = [going["share"] for going in by_task["documents", "Mosaic"]["adaptation"]]
    assert shares == [0.1, 1.0]

    before = {path: path.stat().st_mtime_ns for path in found}
    measure.main(folder)
    assert {path: path.stat().st_mtime_ns for path in found} == before
    measure.EXAMPLES = 3
    with pytest.raises(ValueError, match=r"is of other settings \(different: measure\)"):
        measure.main(folder)


def test_going_on_draws_the_same_whatever_was_drawn_before(folder, measure):
    import torch

    from fourfold import FourfoldForCausalLM
    from fourfold.grid import read_grid
    from fourfold.grid.cell import Cell

    grid, cell = read_grid(folder / "grid.yaml"), Cell("documents", "Mosaic", 0.003, 0)
    curves = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        model = FourfoldForCausalLM.from_pretrained(folder / "models" / cell.path.with_suffix(""))
        measure.adaptation(grid, model, cell, 1.0)
        curves.append([parameter.detach().clone() for parameter in model.parameters()])
    assert all(torch.equal(*pair) for pair in zip(*curves, strict=True))


def test_what_was_measured_is_drawn_and_what_is_missing_is_said(folder, measure, capsys):
    measure.main(folder)
    next(folder.glob("measures/label_map/transformer/*.json")).unlink()
    script("mosaics/knowledge/figures").main(folder)
    assert "missing: label_map, Transformer, seed 0" in capsys.readouterr().out
    for name in ("lengths", "adapting", "shots"):
        assert (folder / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    tables = (folder / "tables.md").read_text()
    assert "| Mosaic, long memory off |" in tables
    assert "at 0.1 of the rate" in tables
    assert "steps to 90 % of the gain" in tables

"""The scripts of the study of the microscope, on models of a few steps."""

from __future__ import annotations

import copy
import json

import pytest
import torch
from result_scripts import run_grid, script

from fourfold import FourfoldForCausalLM
from fourfold.grid import read_grid

GRID = {
    "tasks": {
        "rebind": {"loads": {"iid": [1, 2], "ood": [2, 2], "stress": [3, 3]}},
        "mixed_all": {},
    },
    "models": {"ATPM": {"layer": "atpm"}},
    "parameters": 20_000,
    "layers": 1,
    "fields": {"hidden_size": 16, "num_attention_heads": 2, "head_dim": 8},
    "rates": [0.003],
    "training": {"steps": 2, "batch_size": 2, "warmup_steps": 1},
    "evaluation": {"examples": 2, "validation_examples": 2, "curve_points": 1},
    "keep_models": True,
}
SMALL = {"EXAMPLES": 40, "ABLATED": 4, "RESAMPLES": 10}


@pytest.fixture(scope="module")
def study():
    return script("microscope/study", **SMALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, study):
    folder = run_grid(GRID, tmp_path_factory.mktemp("microscope"))
    study.main(folder)
    return folder


def of(folder, task):
    (path,) = (folder / "study" / task).rglob("*.json")
    return json.loads(path.read_text())


def test_each_model_is_studied_once_and_other_settings_are_refused(folder, study):
    before = {path: path.stat().st_mtime_ns for path in folder.glob("study/*/*/*.json")}
    assert len(before) == 2
    study.main(folder)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "EXAMPLES", 13)
        with pytest.raises(ValueError, match=r"is of other settings \(different: study\)"):
            study.main(folder)


def test_the_study_holds_all_that_its_figures_show(folder):
    rebind, mixed = of(folder, "rebind"), of(folder, "mixed_all")
    assert {row["at"] for row in rebind["pairs"]} == {"key", "behind it"}
    assert all(0 <= row["greater"] <= 1 and 0 <= row["null"] <= 1 for row in rebind["pairs"])
    assert {row["word"] for row in rebind["transport"]} == {"sign", "from", "to", "end"}
    sides = {tuple(row["sides"]) for row in mixed["stages"]}
    assert {("write", "remember"), ("revise", "rewrite"), ("write", "question")} <= sides
    assert {tuple(row["sides"]) for row in mixed["untrained"]} == sides
    held = {(row["split"], row["by"], row["when"]) for row in rebind["ablation"]}
    whole = {
        (split, "model", when)
        for split in ("iid", "ood")
        for when in (None, "questions", "changes")
    }
    assert held == {*whole, ("iid", "head", None)}


def test_without_transport_a_write_is_nowhere_nearer_to_what_will_be_asked(folder, study):
    grid = read_grid(folder / "grid.yaml")
    config = copy.deepcopy(grid.configurations["rebind", "ATPM"])
    free = study.transport(FourfoldForCausalLM(config).eval(), grid.built_tasks["rebind"])
    assert any(abs(row["target"]) > 1e-3 for row in free)
    config.atpm_rho = 0.0
    fixed = FourfoldForCausalLM(config)
    rows = study.transport(fixed.eval(), grid.built_tasks["rebind"])
    assert rows
    assert all(abs(row["target"]) < 1e-6 and abs(row["other"]) < 1e-6 for row in rows)


def test_a_quantity_tells_sides_apart_as_the_count_of_pairs_says(study):
    draw = torch.Generator().manual_seed(0)
    one, other = (torch.randint(5, (n,), generator=draw).double() for n in (30, 20))
    wins = [float(b > a) + float(b == a) / 2 for a in one for b in other]
    assert study.auc(one, other) == pytest.approx(sum(wins) / len(wins))


def test_what_was_studied_is_drawn(folder):
    script("microscope/figures").main(folder)
    for name in ("pairs", "stages", "regimes", "transport", "ablation"):
        assert (folder / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    tables = (folder / "tables.md").read_text()
    assert "| rebind | ood | ρ at its mean |" in tables
    assert "| rebind | iid | λ = 0, at questions alone |" in tables

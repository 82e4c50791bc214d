"""How much comes back of what was stored, against what algebra expects."""

from __future__ import annotations

import json
import math

import pytest
import torch
from typer.testing import CliRunner

from fourfold import FourfoldConfig, FourfoldForCausalLM
from fourfold.capacity import (
    CapacityStudy,
    expected_error,
    model_stream,
    operator_streams,
    trained_capacity,
)
from fourfold.cli import app
from fourfold.evaluation.answers import decode
from fourfold.evaluation.scores import summarise
from fourfold.reports.capacity import items_figure
from fourfold.tasks import Source, make_task

SMALL = dict(address_dims=(16,), items=(1, 4, 16), draws=10)


def rows_of(**fields):
    return list(CapacityStudy(**fields).rows())


@pytest.mark.parametrize("decay", [1.0, 0.95])
@pytest.mark.parametrize("rule", ["delta", "linear"])
def test_theory_of_random_addresses_is_what_is_measured(rule, decay):
    fields = dict(rules=(rule,), address_dims=(64,), addresses=("random",), decays=(decay,))
    for row in rows_of(**fields, items=(2, 8, 32, 128), draws=100):
        assert row["error"] == pytest.approx(row["expected_error"], rel=0.06, abs=0.005)


@pytest.mark.parametrize("rule", ["delta", "linear"])
def test_orthogonal_addresses_lose_only_what_decays_and_only_as_many_as_there_are(rule):
    fields = dict(SMALL, rules=(rule,), addresses=("orthogonal",), decays=(1.0, 0.9))
    for row in rows_of(**fields | {"items": (1, 8, 16, 32)}):
        if row["items"] > 16:
            assert row["expected_error"] is None
            assert row["error"] > 0.4
            continue
        assert row["error"] == pytest.approx(row["expected_error"], abs=1e-10)
        assert row["accuracy"] == 1.0


def test_the_error_of_a_decayed_item_is_by_hand():
    # Three orthogonal items under α = 1/2: the oldest has decayed twice.
    wanted = ((1 - 0.25) ** 2 + (1 - 0.5) ** 2 + 0) / 3
    found = expected_error("delta", address_dim=4, items=3, addresses="orthogonal", decay=0.5)
    assert found == pytest.approx(wanted)
    assert expected_error("linear", address_dim=8, items=2, addresses="random") == pytest.approx(
        1 / 8
    )
    assert expected_error("transported", address_dim=8, items=2, addresses="random") is None
    assert expected_error("delta", address_dim=8, items=9, addresses="orthogonal") is None


def test_similar_addresses_disturb_each_other_more_than_random_ones():
    fields = SMALL | dict(rules=("delta",), decays=(1.0,), items=(8,))
    errors = [
        next(iter(rows_of(**fields, addresses=("similar",), similarity=similarity)))["error"]
        for similarity in (0.0, 0.3, 0.8)
    ]
    assert errors == sorted(errors)
    random = rows_of(**fields, addresses=("random",))[0]["error"]
    assert errors[0] == pytest.approx(random, rel=0.4)
    assert errors[2] > 1.5 * random


def test_transport_at_zero_is_the_delta_rule_and_reads_back_a_last_write_whole():
    both = SMALL | dict(addresses=("random",), decays=(1.0,))
    still = rows_of(**both, rules=("delta",))
    moved = rows_of(**both, rules=("transported",), rho=0.0)
    assert [row["error"] for row in moved] == pytest.approx([row["error"] for row in still])
    (single,) = rows_of(**both | {"items": (1,)}, rules=("transported",), rho=1.0, proposal=0.9)
    assert single["error"] == pytest.approx(0.0, abs=1e-12)


def test_heads_of_one_size_each_have_the_error_of_one():
    fields = SMALL | dict(rules=("delta",), addresses=("random",), decays=(1.0,), draws=200)
    rows = rows_of(**fields, heads=(1, 4))
    for one, four in zip(rows[:3], rows[3:], strict=True):
        assert (one["heads"], four["heads"]) == (1, 4)
        assert four["error"] == pytest.approx(one["error"], rel=0.1, abs=1e-12)


def test_writing_some_items_again_hurts_the_others_unless_addresses_are_orthogonal():
    study = CapacityStudy(
        rules=("delta",), address_dims=(16,), items=(8, 16), addresses=("orthogonal", "random")
    )
    rows = list(study.neighbours())
    assert {(row["items"], row["overwritten"]) for row in rows} == {
        (8, 2),
        (8, 4),
        (16, 4),
        (16, 8),
    }
    for row in rows:
        if row["addresses"] == "orthogonal":
            assert row["error_after"] == pytest.approx(0.0, abs=1e-12)
            assert row["accuracy_after"] == 1.0
        else:
            assert row["error_after"] > row["error_before"] + 0.05


def test_a_study_depends_on_its_seed_alone():
    first = rows_of(**SMALL, seed=1)
    assert first == rows_of(**SMALL, seed=1)
    assert first != rows_of(**SMALL, seed=2)


def test_random_streams_stay_bounded_and_the_doubling_stream_does_not():
    rows = list(operator_streams(tokens=1024, address_dim=16, columns=16))
    norms = {}
    for row in rows:
        norms.setdefault((row["stream"], row["rho"], row["guarded"]), []).append(row["norm"])
    still, moved = norms["random", 0.0, False], norms["random", 0.999, False]
    assert len(still) == len(moved) == 16
    assert max(still) < 10
    assert max(still) < max(moved) < 1e3
    free, guarded = norms["doubling", 0.999, False], norms["doubling", 0.999, True]
    assert len(free) < 16  # it ends where it overflows
    assert all(map(math.isfinite, free))
    growth = (free[1] / free[0]) ** (1 / 32)
    assert 1.98 < growth < 2.001
    assert len(guarded) == 16
    assert max(guarded) < 1e6 * 2.0**32


def small_model(layer="atpm"):
    task = make_task("kv_recall")
    config = FourfoldConfig(
        vocab_size=task.vocab_size,
        hidden_size=16,
        num_attention_heads=2,
        layer_types=[layer] * 2,
        initializer_range=0.3,
        eos_token_id=None,
    )
    return FourfoldForCausalLM(config).eval()


def test_a_trained_model_is_asked_at_each_number_of_items():
    model = small_model()
    rows = list(trained_capacity(model, "kv_recall", {"value_tokens": 1}, items=[2, 5], examples=6))
    assert [row["items"] for row in rows] == [2, 5]
    task = make_task(
        "kv_recall",
        {"value_tokens": 1, "loads": {s: (5, 5) for s in ("iid", "ood", "stress")}},
    )
    drawn = Source(task).examples("iid", 0, 6)
    assert rows[1] == {"items": 5, **summarise(drawn, decode(model, drawn))}
    with pytest.raises(ValueError, match="needs 33 different symbols of the family 'key'"):
        list(trained_capacity(model, "kv_recall", {}, items=[33]))
    with pytest.raises(ValueError, match="induction has 64 symbols and the model 90"):
        list(trained_capacity(model, "induction", {}, items=[4]))


@pytest.mark.parametrize("layer", ["atpm", "lstm"])
def test_the_norms_along_a_stream_are_those_of_the_states(layer):
    model = small_model(layer)
    tokens = torch.randint(90, (200,), generator=torch.Generator().manual_seed(1)).tolist()
    rows = list(model_stream(model, "any", tokens))
    assert [row["token"] for row in rows] == [64, 128, 192, 200]
    cache = model.new_cache()
    with torch.no_grad():
        model(torch.tensor([tokens]), cache=cache)
    if layer == "lstm":
        assert rows[-1]["norm"] == 0.0
        return
    states = [cache.states[number].memory for number in (0, 1)]
    greatest = max(float(state.flatten(2).norm(dim=-1).max()) for state in states)
    assert rows[-1]["norm"] == pytest.approx(greatest, rel=1e-4)


def invoke(*arguments):
    return CliRunner().invoke(app, ["capacity", *map(str, arguments)])


def test_the_command_measures_a_study_and_draws_it(tmp_path):
    study = tmp_path / "study.yaml"
    study.write_text("address_dims: [8]\nitems: [2, 4]\ndraws: 2\n")
    done = invoke(study, "draws=3", "--tokens", 128, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    result = json.loads((tmp_path / "out" / "capacity.json").read_text())
    assert result["settings"]["draws"] == 3
    assert len(result["rows"]) == 3 * 3 * 2 * 2
    pictures = {"recall.png", "interference.png", "neighbours.png", "streams.png"}
    assert {path.name for path in (tmp_path / "out").glob("*.png")} == pictures
    assert all(path.read_bytes()[:4] == b"\x89PNG" for path in (tmp_path / "out").glob("*.png"))


def test_the_command_measures_a_model(tmp_path):
    small_model().save_pretrained(tmp_path / "model")
    out = tmp_path / "out"
    done = invoke(tmp_path / "model", "--items", "1,3", "--tokens", 128, "--out", out)
    assert done.exit_code == 0, done.output
    result = json.loads((out / "capacity.json").read_text())
    assert [row["items"] for row in result["rows"]] == [1, 3]
    assert [row["token"] for row in result["streams"]] == [64, 128]
    assert {path.name for path in out.glob("*.png")} == {"recall.png", "streams.png"}


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        ("address_dim: [8]", (), "Did you mean 'address_dims'?"),
        ("heads: [3]", (), "heads must divide the 32 columns; got 3"),
        ("decays: [0.0]", (), "decays must be above 0 and at most 1"),
        ("items: [0]", (), "items and address_dims must be 1 or more"),
        ("draws: 2", ("draws=0",), "greater than or equal to 1"),
    ],
)
def test_a_study_that_cannot_be_made_is_refused(tmp_path, content, arguments, message):
    study = tmp_path / "study.yaml"
    study.write_text(content)
    refused = invoke(study, *arguments, "--out", tmp_path / "out")
    assert refused.exit_code == 1
    assert message in refused.output.replace("\n", " ")
    assert not (tmp_path / "out").exists()


def test_items_of_a_model_must_be_numbers(tmp_path):
    small_model().save_pretrained(tmp_path / "model")
    refused = invoke(tmp_path / "model", "--items", "1,b", "--out", tmp_path / "out")
    assert refused.exit_code == 1
    assert "items must be numbers from 1, like 1,2,4" in refused.output.replace("\n", " ")


def test_fields_of_a_model_are_refused_for_a_study(tmp_path):
    (tmp_path / "study.yaml").write_text("draws: 2")
    refused = invoke(tmp_path / "study.yaml", "--items", "1,2", "--out", tmp_path / "out")
    assert refused.exit_code == 1
    assert "--items is of a model" in refused.output


def test_a_figure_of_several_heads_draws_one_line_a_condition():
    rows = rows_of(**SMALL, heads=(1, 2), rules=("delta",), addresses=("random",), decays=(1.0,))
    (axes,) = items_figure(rows, "accuracy").axes
    drawn = [line for line in axes.get_lines() if len(line.get_xdata()) == len(SMALL["items"])]
    assert len(drawn) == 1
    assert list(drawn[0].get_xdata()) == list(SMALL["items"])

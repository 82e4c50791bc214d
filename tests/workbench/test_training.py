"""Training, measuring and what the comparison keeps of it."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from zoo import KINDS, build

from fourfold import FourfoldForCausalLM
from fourfold.comparison import (
    MODELS,
    ComparisonOptions,
    model_configurations,
    run_model,
    with_steps,
)
from fourfold.data import Corpus
from fourfold.evaluation import bits_per_byte, windows
from fourfold.reports import read_comparison, table_rows, write_report
from fourfold.training import TrainingOptions, train
from fourfold.training.loop import parameter_groups, rate_share

TINY = TrainingOptions(
    steps=30, batch_size=4, sequence_length=16, warmup_steps=3, learning_rate=1e-2
)


def stream(length=4000):
    """A text that repeats with a period longer than a window."""
    return (
        torch.randint(1, 60, (50,), generator=torch.Generator().manual_seed(0))
        .repeat(length // 50)
        .short()
    )


def corpus():
    return Corpus("a text", stream(), stream(1000), 1, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_every_model_learns(kind):
    model, losses = build(kind), []
    train(model, stream(), TINY, lambda step: losses.append(step.loss))
    assert len(losses) == 30
    assert sum(losses[-5:]) / 5 < 0.8 * losses[0]


def test_training_is_repeatable_and_the_windows_hang_on_the_seed_alone():
    def losses(seed):
        model, found = build("atpm"), []
        train(
            model, stream(), replace(TINY, steps=5, seed=seed), lambda step: found.append(step.loss)
        )
        return found

    assert losses(0) == losses(0) != losses(1)


def test_a_loss_that_is_not_finite_stops_with_a_sentence():
    model = build("atpm")
    with torch.no_grad():
        model.model.embed_tokens.weight[:] = float("nan")
    with pytest.raises(ArithmeticError, match="The loss became nan at step 1"):
        train(model, stream(), TINY, lambda step: None)
    with pytest.raises(ValueError, match="needs more than that; got 10"):
        train(model, stream()[:10], TINY, lambda step: None)


@pytest.mark.parametrize("last", [0.1, 0.01])
def test_the_rate_warms_up_and_falls_to_its_last_share(last):
    options = TrainingOptions(steps=100, warmup_steps=10, final_share=last)
    shares = [rate_share(step, options) for step in range(101)]
    assert shares[0] == 0.1
    assert shares[9] == shares[10] == 1.0
    assert math.isclose(shares[100], last)
    assert math.isclose(shares[55], (1 + last) / 2)
    assert all(a >= b for a, b in pairwise(shares[10:]))


def test_only_matrices_decay():
    model = build("hybrid of all")
    decayed, free = parameter_groups(model, 0.1)
    assert (decayed["weight_decay"], free["weight_decay"]) == (0.1, 0.0)
    names = {id(p): name for name, p in model.named_parameters()}
    found = {names[id(p)] for p in decayed["params"]}
    assert "model.layers.0.memory.in_proj.weight" in found
    assert "model.layers.1.memory.cell.weight_hh_l0" in found
    assert "model.embed_tokens.weight" not in found
    assert "model.layers.0.memory.convolution.weight" not in found
    assert not [name for name in found if "norm" in name or "A_log" in name or "bias" in name]
    assert len(decayed["params"]) + len(free["params"]) == len(list(model.parameters()))


def test_bits_per_byte_of_a_model_that_knows_nothing_are_the_logarithm_of_its_tokens():
    model = build("atpm")
    with torch.no_grad():
        model.lm_head.weight.zero_()
    batch = windows(stream(), length=20, count=5)
    assert math.isclose(bits_per_byte(model, batch), math.log2(64), rel_tol=1e-5)


def test_an_end_of_text_costs_bits_but_is_no_byte():
    model = build("atpm", vocab_size=259)
    with torch.no_grad():
        model.lm_head.weight.zero_()
    batch = torch.tensor([[1, 2, 258, 3]])
    assert math.isclose(bits_per_byte(model, batch), math.log2(259) * 3 / 2, rel_tol=1e-5)


def test_windows_are_spread_over_the_whole_stream():
    found = windows(torch.arange(1000), length=10, count=3)
    assert found[:, 0].tolist() == [0, 495, 990]
    assert windows(torch.arange(25), length=10, count=9).shape == (2, 10)
    # Where float32 would round: 2²⁵ and more tokens.
    large = torch.zeros(512 + 2**25 + 3, dtype=torch.int16)
    assert windows(large, length=512, count=64).shape == (64, 512)
    with pytest.raises(ValueError, match="A window of 10 tokens needs as many; the text has 9"):
        windows(torch.arange(9), length=10, count=1)


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    folder = tmp_path_factory.mktemp("comparison")
    options = replace(with_steps(ComparisonOptions(hidden_size=16), 4), evaluations=2)
    options = replace(options, training=replace(options.training, batch_size=2, sequence_length=32))
    text = corpus()
    for name, config in model_configurations(options).items():
        run_model(name, config, text, options, folder / config.layer_types[0], lambda step: None)
    return folder, options, text


def test_a_comparison_keeps_models_and_results_with_their_origin(comparison):
    folder, _, _ = comparison
    results = read_comparison(folder)
    assert {result["model"] for result in results} == set(MODELS)
    best = [result["validation_bits_per_byte"] for result in results]
    assert best == sorted(best)
    for result in results:
        assert result["seed"] == 0
        assert {"torch", "transformers", "fourfold", "python"} <= set(result["versions"])
        assert {"command", "commit", "wall_seconds", "options", "configuration"} <= set(result)
        assert len(result["train_loss_nats"]) == 4
        assert [point["tokens"] for point in result["validation_curve"]] == [128, 256]
        model = FourfoldForCausalLM.from_pretrained(
            folder / result["configuration"]["layer_types"][0]
        )
        assert model.num_parameters() == result["parameters"]


def test_what_is_finished_is_not_done_again_nor_replaced_by_other_settings(comparison):
    folder, options, text = comparison
    name, config = next(iter(model_configurations(options).items()))
    path = folder / "atpm"
    before = (path / "result.json").read_bytes()
    steps = []
    run_model(name, config, text, options, path, steps.append)
    with pytest.raises(ValueError, match=r"other settings \(different: options\)"):
        run_model(name, config, text, with_steps(options, 2), path, steps.append)
    other = replace(text, train=text.train.flip(0))
    moved = replace(text, name="the same text elsewhere")
    assert run_model(name, config, moved, options, path, steps.append)["text_name"] == "a text"
    with pytest.raises(ValueError, match=r"other settings \(different: text\)"):
        run_model(name, config, other, options, path, steps.append)
    assert steps == []
    assert (path / "result.json").read_bytes() == before


def test_the_report_is_one_page_that_needs_nothing_else(comparison):
    folder, _, _ = comparison
    page = write_report(folder).read_text()
    for name in MODELS:
        assert f"<td>{name}</td>" in page
    assert page.count("<svg ") == 2
    for outside in ("src=", 'href="http', "@import", "url(http"):
        assert outside not in page
    header, *rows = table_rows(read_comparison(folder))
    assert len(header) == 5
    assert len(rows) == 4


def test_a_damaged_result_is_named(comparison, tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "result.json").write_text("{")
    with pytest.raises(ValueError, match=r"result\.json is no result file"):
        read_comparison(tmp_path)
    with pytest.raises(FileNotFoundError, match="holds no results"):
        read_comparison(tmp_path / "nothing")
    (tmp_path / "x" / "result.json").write_text(json.dumps({"model": "x"}))
    with pytest.raises(ValueError, match=r"result\.json is no result of a comparison: it lacks"):
        read_comparison(tmp_path)
    (tmp_path / "x" / "result.json").write_text(json.dumps([1]))
    with pytest.raises(ValueError, match="no JSON object"):
        read_comparison(tmp_path)

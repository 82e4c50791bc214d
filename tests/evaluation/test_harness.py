"""lm-eval, asked on our models, finds what we compute ourselves."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner
from zoo import build

from fourfold import ByteTokenizer
from fourfold.cli import app
from fourfold.evaluation.harness import harness_model, run_harness
from fourfold.models.tokenizer import EOS

pytest.importorskip("lm_eval", reason='lm-eval is not installed: pip install "fourfold[lm-eval]"')

ROOT = Path(__file__).parents[2]
TASKS = Path("tests") / "evaluation" / "lm_eval_task"
KINDS = ["atpm", "attention", "lstm", "hybrid of atpm and windowed attention"]


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """Data sets are kept in a folder of the test; the tasks name theirs from the root."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "datasets")
    monkeypatch.chdir(ROOT)


def bytes_model(kind="atpm", **changes):
    return build(kind, vocab_size=259, **changes)


def asked(method, *arguments):
    from lm_eval.api.instance import Instance

    name = method.__name__
    requests = [
        Instance(request_type=name, doc={}, arguments=given, idx=index)
        for index, given in enumerate(arguments)
    ]
    return method(requests, disable_tqdm=True)


@torch.no_grad()
def log_likelihood(model, context, continuation):
    """Of the bytes of ``continuation`` after those of ``context``, or after the end of a text."""
    before = list(context.encode()) or [EOS]
    tokens = torch.tensor([before + list(continuation.encode())])
    scores = model(tokens).logits.log_softmax(-1)[0, :-1].gather(1, tokens[0, 1:, None])
    return float(scores[len(before) - 1 :].sum())


@torch.no_grad()
def greedy(model, prompt, count):
    tokens = torch.tensor([list(prompt.encode())])
    for _ in range(count):
        tokens = torch.cat([tokens, model(tokens).logits[:, -1:].argmax(-1)], 1)
    return tokens[0, len(prompt.encode()) :].tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_the_likelihood_of_a_continuation_is_ours_in_a_batch_too(kind):
    model = bytes_model(kind)
    pairs = [("The sky is", " blue"), ("Größe:", " ja"), ("A", " longer answer"), ("", "alone")]
    found = asked(harness_model(model, ByteTokenizer(), batch_size=4).loglikelihood, *pairs)
    for (context, continuation), (likelihood, _) in zip(pairs, found, strict=True):
        assert math.isclose(likelihood, log_likelihood(model, context, continuation), rel_tol=1e-4)


def test_a_greedy_continuation_is_known_as_such():
    model = bytes_model()
    likeliest = greedy(model, "x", 1)
    assert likeliest[0] < 128
    pairs = [("x", chr(likeliest[0])), ("x", chr((likeliest[0] + 1) % 128))]
    found = asked(harness_model(model, ByteTokenizer()).loglikelihood, *pairs)
    assert [is_greedy for _, is_greedy in found] == [True, False]


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_longer_than_any_window_is_read_whole(kind):
    model, text = bytes_model(kind), "ab, " * 600  # HFLM's own bound is 2,048 tokens
    (found,) = asked(harness_model(model, ByteTokenizer()).loglikelihood_rolling, (text,))
    assert math.isclose(found, log_likelihood(model, "", text), rel_tol=1e-4)


def test_with_a_bound_a_text_is_read_in_windows():
    model, text = bytes_model(), "abcdefgh"
    lm = harness_model(model, ByteTokenizer(), max_length=4)
    (found,) = asked(lm.loglikelihood_rolling, (text,))
    parts = log_likelihood(model, "", "abcd") + log_likelihood(model, "d", "efgh")
    assert math.isclose(found, parts, rel_tol=1e-4)


def test_what_is_generated_side_by_side_is_the_greedy_continuation_up_to_the_end_of_text():
    model = bytes_model(tie_word_embeddings=False, eos_token_id=None)
    prompts = ["The sky is", "A", "Größe"]
    before = [greedy(model, prompt, 12) for prompt in prompts]
    ending = before[0][3]
    with torch.no_grad():  # from now on the model ends where it would have said this
        rows = model.lm_head.weight
        rows[[EOS, ending]] = rows[[ending, EOS]]
    after = [greedy(model, prompt, 12) for prompt in prompts]
    right = [said[: said.index(EOS)] if EOS in said else said for said in after]
    assert len(right[0]) <= 3
    options = {"until": [], "max_gen_toks": 12}
    lm = harness_model(model, ByteTokenizer(), batch_size=3)
    found = asked(lm.generate_until, *[(prompt, options) for prompt in prompts])
    assert found == [ByteTokenizer().decode(said, skip_special_tokens=True) for said in right]
    assert model.generation_config.eos_token_id is None


def test_tasks_of_ones_own_run_from_the_command_line(tmp_path, own_cache):
    model, folder = bytes_model(), tmp_path / "model"
    model.save_pretrained(folder)
    ByteTokenizer().save_pretrained(folder)
    out = tmp_path / "scores.json"
    arguments = ["--tasks", "colour,colour_said", "--include-path", str(TASKS), "--out", str(out)]
    result = CliRunner().invoke(app, ["lm-eval", str(folder), *arguments, "--batch-size", "4"])
    assert result.exit_code == 0, result.output
    assert "colour_said" in result.output
    assert "exact_match" in result.output
    record = json.loads(out.read_text())
    right = 0
    for line in (ROOT / TASKS / "colours.jsonl").read_text().splitlines():
        example = json.loads(line)
        context = example["sentence"] + " Its colour is"
        scores = [log_likelihood(model, context, f" {colour}") for colour in example["colours"]]
        right += scores.index(max(scores)) == example["right"]
    assert record["results"]["colour"]["acc,none"] == right / 4
    assert record["examples"]["colour_said"]["effective"] == 4
    assert {"command", "commit", "versions", "lm_eval_version", "configuration"} <= set(record)


def test_a_limit_leaves_examples_out(own_cache):
    model = bytes_model("lstm")
    found = run_harness(model, ByteTokenizer(), ["colour"], include_path=TASKS, limit=2)
    assert found["n-samples"]["colour"] == {"original": 4, "effective": 2}


def test_what_cannot_be_asked_is_a_sentence(tmp_path):
    model, tokenizer = bytes_model("lstm"), ByteTokenizer()
    with pytest.raises(ValueError, match="include_path must be a folder of tasks; got"):
        run_harness(model, tokenizer, ["colour"], include_path=tmp_path / "none")
    with pytest.raises(ValueError, match="must have an end-of-text token"):
        harness_model(model, ByteTokenizer(eos_token=None))

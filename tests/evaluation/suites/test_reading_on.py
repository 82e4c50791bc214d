"""A reading weighs and says what the model itself would, for our models as for others."""

from __future__ import annotations

import pytest
import torch
from small_models import llama, ours
from transformers import GPT2Config, GPT2LMHeadModel, Mamba2Config, Mamba2ForCausalLM

from fourfold.evaluation.suites.reading import ROWS, Reading

ENDLESS = dict(vocab_size=40, eos_token_id=None)
REACH = dict(mosaic_window=4, mosaic_delay=2, mosaic_training_delay=[2, 2])


def mamba():
    config = Mamba2Config(
        vocab_size=40,
        hidden_size=16,
        num_heads=4,
        head_dim=8,
        state_size=8,
        n_groups=1,
        num_hidden_layers=2,
        chunk_size=8,
        initializer_range=0.3,
    )
    return Mamba2ForCausalLM(config).eval()


MODELS = {
    "atpm": lambda: ours("atpm", **ENDLESS, **REACH),
    "mosaic": lambda: ours("mosaic", **ENDLESS, **REACH),
    "attention": lambda: ours("attention", **ENDLESS, **REACH),
    "lstm": lambda: ours("lstm", **ENDLESS, **REACH),
    "transformers' Llama": lambda: llama(num_hidden_layers=2, bos_token_id=None, **ENDLESS),
    "transformers' Mamba-2": mamba,
}
READ = [3, 1, 4, 1, 5, 9, 2, 6]


def direct(model, read, continuation):
    """Minus the log-likelihood, in one call on everything."""
    with torch.no_grad():
        logits = model(torch.tensor([[*read, *continuation]]), use_cache=False).logits[0]
    likely = logits.log_softmax(-1)[len(read) - 1 : -1]
    return -float(likely[torch.arange(len(continuation)), continuation].sum())


@pytest.mark.parametrize("name", MODELS)
def test_continuations_weigh_what_reading_all_in_one_gives(name):
    model = MODELS[name]()
    rows = [[7], [7, 8], [9, 9, 9, 9, 2], [1, 2, 3]] * (ROWS // 3)
    assert len(rows) > ROWS
    found = Reading.of(model, READ).nats(rows)
    assert found == pytest.approx([direct(model, READ, row) for row in rows], rel=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_one_reading_serves_many_questions(name):
    model = MODELS[name]()
    reading = Reading.of(model, READ)
    for question in ([11, 12], [13], [11, 12]):
        found = reading.further(question).nats([[5, 6]])
        assert found == pytest.approx([direct(model, [*READ, *question], [5, 6])], rel=1e-4)
    assert reading.nats([[5, 6]]) == pytest.approx([direct(model, READ, [5, 6])], rel=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_what_is_said_is_the_likeliest_and_stops_before_an_end(name):
    model = MODELS[name]()
    said = Reading.of(model, READ).say(6, ends=())
    right = []
    for _ in range(6):
        with torch.no_grad():
            logits = model(torch.tensor([[*READ, *right]]), use_cache=False).logits[0, -1]
        right.append(int(logits.argmax()))
    assert said == right
    assert Reading.of(model, READ).say(6, ends={right[3]}) == right[: right.index(right[3])]


def test_what_cannot_be_read_is_refused_in_a_sentence():
    config = GPT2Config(vocab_size=40, n_positions=8, n_embd=16, n_layer=1, n_head=2)
    model = GPT2LMHeadModel(config).eval()
    reading = Reading.of(model, READ)
    with pytest.raises(ValueError, match=r"GPT2LMHeadModel .* cannot read 9 tokens"):
        reading.further([1])
    with pytest.raises(ValueError, match="one or more; got none"):
        reading.further([])

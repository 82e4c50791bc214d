"""Loss of text, as a whole and by how much the memory had read."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from list_order import END, ListOrder

from fourfold.evaluation.language import evaluate_text
from fourfold.models import FourfoldConfig, FourfoldForCausalLM

DOCUMENTS = [[7, 3, 5] * 9, [1], [2, 4] * 3, [9] * 40]


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    config = FourfoldConfig(
        hidden_size=16,
        num_attention_heads=1,
        layer_types=["atpm", "attention"],
        vocab_size=END + 1,
        initializer_range=0.3,
    )
    return FourfoldForCausalLM(config).double()


def nats(model, tokens):
    """Of each token behind the first, the whole read at once."""
    with torch.no_grad():
        logits = model.eval()(torch.tensor([tokens[:-1]])).logits[0]
    return F.cross_entropy(logits, torch.tensor(tokens[1:]), reduction="none").tolist()


@pytest.mark.parametrize("lanes", [1, 3, 7])
def test_each_document_is_read_from_nothing_and_counted_by_position(model, lanes):
    each = [nats(model, [*tokens, END]) for tokens in DOCUMENTS]
    score = evaluate_text(model, ListOrder(DOCUMENTS, endless=False), length=10, lanes=lanes)
    flat = [value for losses in each for value in losses]
    assert score.tokens == len(flat)
    assert score.nats == pytest.approx(sum(flat) / len(flat), abs=1e-9)
    assert score.perplexity == pytest.approx(math.exp(score.nats))
    assert score.bits_per_byte == pytest.approx(score.nats / math.log(2) / 3)
    bounds = [(0, 1), (1, 2), (2, 4), (4, 8), (8, 16), (16, 32), (32, 64)]
    assert [(part.start, part.stop) for part in score.by_position] == bounds
    for part in score.by_position:
        found = [value for losses in each for value in losses[part.start : part.stop]]
        assert part.tokens == len(found)
        assert part.nats == pytest.approx(sum(found) / len(found), abs=1e-9)


def test_a_memory_may_go_on_over_documents(model):
    joined = [token for tokens in DOCUMENTS for token in [*tokens, END]]
    each = nats(model, joined)
    # The first token of a document is not predicted, whatever the memory holds.
    firsts = [0]
    for tokens in DOCUMENTS[:-1]:
        firsts.append(firsts[-1] + len(tokens) + 1)
    predicted = [value for i, value in enumerate(each, start=1) if i not in firsts]
    order = ListOrder(DOCUMENTS, endless=False)
    score = evaluate_text(model, order, memory="stream", length=10, lanes=1)
    assert score.tokens == len(predicted)
    assert score.nats == pytest.approx(sum(predicted) / len(predicted), abs=1e-9)


def test_a_stream_reads_all_documents_in_order_by_one_memory(model):
    scores = [
        evaluate_text(
            model, ListOrder(DOCUMENTS, endless=False), memory="stream", length=10, **options
        )
        for options in ({}, {"lanes": 1}, {"lanes": 2})
    ]
    assert scores[0] == scores[1] != scores[2]
    document = [
        evaluate_text(model, ListOrder(DOCUMENTS, endless=False), length=10, **options)
        for options in ({}, {"lanes": 8})
    ]
    assert document[0] == document[1]


@pytest.mark.parametrize(
    ("factor", "words"),
    [(float("nan"), "The loss became nan within the first"), (1e6, "nats a token, of which the")],
)
def test_a_model_that_diverged_is_a_sentence(factor, words):
    model = FourfoldForCausalLM(
        FourfoldConfig(
            hidden_size=16, num_attention_heads=1, layer_types=["lstm"], vocab_size=END + 1
        )
    )
    with torch.no_grad():
        model.lm_head.weight *= factor
    with pytest.raises(ArithmeticError, match=f"{words}.*its training diverged"):
        evaluate_text(model, ListOrder(DOCUMENTS, endless=False), length=10)


def test_a_window_limits_the_memory(model):
    score = evaluate_text(
        model, ListOrder(DOCUMENTS, endless=False), memory="window", length=8, lanes=2
    )
    assert max(part.stop for part in score.by_position) == 8


def test_a_limit_ends_the_reading(model):
    score = evaluate_text(model, ListOrder(DOCUMENTS), length=10, lanes=2, tokens=100)
    assert 100 <= score.tokens < 120


def test_bytes_are_those_of_the_documents_that_were_read(model):
    class Sized(ListOrder):
        def recall(self, reference):
            return replace(super().recall(reference), bytes_each=(2, 5)[reference])

    order = Sized([[1] * 19, [2] * 500], endless=False)
    score = evaluate_text(model, order, length=19, lanes=1, tokens=19)
    assert score.tokens == 19
    assert score.bits_per_byte == pytest.approx(score.nats / math.log(2) / 2)


def test_the_model_stays_in_its_mode(model):
    model.train()
    evaluate_text(model, ListOrder(DOCUMENTS, endless=False))
    assert model.training

"""What is lost when a head is held is what that head was good for."""

from __future__ import annotations

from statistics import fmean

import pytest
import torch
from test_observe import model_of

from fourfold import FourfoldConfig, FourfoldForCausalLM
from fourfold.evaluation.answers import Answer, decode
from fourfold.evaluation.scores import bootstrap, exact, summarise
from fourfold.observe import ablation, intervene, observe
from fourfold.observe.ablation import ablate
from fourfold.tasks import Source, make_task

SYMBOLS = 16
LOADS = {"iid": (4, 12), "ood": (14, 14), "stress": (16, 16)}
TASK = make_task("induction", {"vocabulary_size": SYMBOLS, "loads": LOADS})
COUNT = 30


def recaller(*heads):
    """A layer set by hand that recalls what followed a token.

    Symbols are unit vectors. Both heads bind each token to the one before it; a head is given by
    the symbols that it writes, and by how its readings are turned before they are added.
    """
    config = FourfoldConfig(
        vocab_size=SYMBOLS,
        hidden_size=SYMBOLS,
        num_attention_heads=2,
        head_dim=SYMBOLS,
        expand_v=1.0,
        conv_size=2,
        layer_types=["gated_deltanet"],
        eos_token_id=None,
        pad_token_id=None,
        bos_token_id=None,
    )
    model = FourfoldForCausalLM(config).eval()
    (layer,) = model.memories()
    one = torch.eye(SYMBOLS)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.model.embed_tokens.weight.copy_(one)
        for norm in (model.model.norm, model.model.layers[0].memory_norm, layer.norm):
            norm.weight.fill_(1)
        layer.in_proj.weight.copy_(one.repeat(3 * 2, 1))
        before, now = layer.convolution.weight.view(2, 3, 2 * SYMBOLS)
        now[0], before[1], now[2] = 1, 1, 1  # query, key, value
        layer.decay.A_log.fill_(-20)
        layer.gate_proj.weight.fill_(1)
        out = layer.out_proj.weight.view(SYMBOLS, 2, SYMBOLS)
        for head, (written, turned) in enumerate(heads):
            layer.beta_proj.weight[head] = -10
            layer.beta_proj.weight[head, list(written)] = 10
            out[:, head] = turned
    return model


EVERY, NONE = range(SYMBOLS), torch.zeros(SYMBOLS, SYMBOLS)
PLAIN = 10 * torch.eye(SYMBOLS)
FEW = range(5)
REST = range(5, SYMBOLS)


def loss_of(rows, head, **held):
    (row,) = (row for row in rows if row["head"] == head and row["held"] == held)
    return row


def named(symbols):
    """Share of what is to be named that is of some symbols."""
    probes = [token for e in Source(TASK).examples("iid", 0, COUNT) for _, token in e.probes]
    return fmean(token in symbols for token in probes)


def test_the_one_head_that_matters_comes_first_and_the_other_loses_nothing():
    first, *rows = ablate(recaller((EVERY, PLAIN), (EVERY, NONE)), TASK, examples=COUNT)
    assert (first["exact_match"], first["loss"], first["interval"]) == (1, 0, [0, 0])
    assert (rows[0]["layer"], rows[0]["head"], rows[0]["held"]) == (0, 0, {"beta": 0.0})
    assert (rows[0]["exact_match"], rows[0]["loss"], rows[0]["interval"]) == (0, 1, [1, 1])
    assert [row["loss"] for row in rows[1:]] == [0, 0, 0]


def test_each_head_loses_what_it_alone_had_stored():
    first, *rows = ablate(recaller((FEW, PLAIN), (REST, PLAIN)), TASK, examples=COUNT)
    assert first["exact_match"] == 1
    assert [(row["head"], row["held"]) for row in rows[:2]] == [
        (1, {"beta": 0.0}),
        (0, {"beta": 0.0}),
    ]
    for row, symbols in zip(rows[:2], (REST, FEW), strict=True):
        assert row["loss"] == pytest.approx(named(symbols))
        assert row["exact_match"] == pytest.approx(1 - named(symbols))
    examples = Source(TASK).examples("iid", 0, COUNT)
    lost = [[float(token in REST) for _, token in example.probes] for example in examples]
    low, high = rows[0]["interval"]
    assert low < rows[0]["loss"] < high
    assert (low, high) == pytest.approx(bootstrap([lost]), abs=0.03)


def test_a_head_that_does_harm_gains_when_it_is_silenced_and_comes_last():
    wrong = 30 * torch.eye(SYMBOLS).roll(1, 0)
    first, *rows = ablate(recaller((EVERY, PLAIN), (FEW, wrong)), TASK, examples=COUNT)
    harm = named(FEW)
    assert first["exact_match"] == pytest.approx(1 - harm)
    assert rows[0]["head"] == 0
    assert rows[0]["loss"] == pytest.approx(1 - harm)
    assert (rows[-1]["head"], rows[-1]["held"]) == (1, {"beta": 0.0})
    assert rows[-1]["loss"] == pytest.approx(-harm)
    assert rows[-1]["interval"][1] < 0


def test_the_interval_is_of_the_same_questions_with_and_without():
    """Answers that stay as they are lose nothing, however many of them were wrong."""
    first, *rows = ablate(recaller((FEW, PLAIN), (EVERY, NONE)), TASK, examples=COUNT)
    assert 0.1 < first["exact_match"] < 0.9
    assert loss_of(rows, 1, beta=0.0)["interval"] == [0, 0]


def test_a_coordinate_at_its_mean_tells_whether_it_matters_that_it_varies():
    """A weak write reads as a strong one behind the norm, so what β varies by is of no use where
    nothing is written twice."""
    model = recaller((FEW, PLAIN), (REST, PLAIN))
    held = [{"beta": 0.0}, {"beta": "mean"}, {"erase": "mean", "write": "mean"}]
    first, *rows = ablate(model, TASK, examples=COUNT, held=held)
    assert len(rows) == 2 * 3
    assert loss_of(rows, 1, beta=0.0)["loss"] == pytest.approx(named(REST))
    assert loss_of(rows, 1, beta="mean")["loss"] == 0
    assert loss_of(rows, 1, erase="mean", write="mean")["loss"] == 0
    assert first["exact_match"] == 1


def test_the_mean_that_is_held_is_each_heads_own():
    model = model_of("atpm", "gated_deltanet", "comba", vocab_size=SYMBOLS)
    with torch.no_grad():
        next(model.memories()).controller.weight.normal_()
    examples = sorted(Source(TASK).examples("iid", 0, 3), key=lambda e: len(e.context))
    with observe(model) as free:
        decode(model, examples)
    means = ablation._means(model, examples)
    names = {0: ("beta_k", "beta_v", "rho", "lambda"), 1: ("beta",), 2: ("erase", "write")}
    held = {"beta": "mean", "rho": "mean", "lam": "mean"}
    with (
        observe(model) as trace,
        ablation._holding(model, means, layer=None, head=None, at=None, held=held),
    ):
        decode(model, examples)
    for layer, known in names.items():
        for name in known:
            wanted = free.of(layer, name).double().mean(0).float()
            assert free.of(layer, name).std() > 1e-4
            torch.testing.assert_close(
                trace.of(layer, name), wanted.expand(len(trace), -1), rtol=1e-5, atol=1e-6
            )


def test_what_is_held_during_some_events_is_free_at_all_others():
    model = recaller((EVERY, PLAIN), (EVERY, NONE))
    held = [{"beta": 0.0}]
    written = ablate(model, TASK, examples=COUNT, held=held, during=["untouched write"])
    assert loss_of(written[1:], 0, beta=0.0)["loss"] == 1
    asked = ablate(model, TASK, examples=COUNT, held=held, during=["question", "read"])
    assert loss_of(asked[1:], 0, beta=0.0)["loss"] == 0


def test_a_layer_or_the_model_is_held_as_a_whole():
    model = recaller((FEW, PLAIN), (REST, PLAIN))
    for by, layer in (("layer", 0), ("model", None)):
        _, *rows = ablate(model, TASK, examples=COUNT, by=by)
        assert [(row["layer"], row["head"]) for row in rows] == [(layer, None)] * 2
        assert [(row["held"], row["loss"]) for row in rows] == [
            ({"beta": 0.0}, 1),
            ({"alpha": 1.0}, 0),
        ]


@pytest.mark.parametrize(
    ("by", "held", "count"),
    [
        ("head", None, 2 * 7 + 2 * 2),
        ("layer", None, 7 + 2),
        ("model", None, 7),
        ("head", [{"rho": 0.0}], 2),
        ("head", [{"rho": 0.0}, {"alpha": 0.5}], 2 * 2 + 2),
        ("model", [{"rho": 0.0}], 1),
    ],
)
def test_what_is_held_is_held_where_there_is_such_a_coordinate(by, held, count):
    model = model_of("atpm", "gated_deltanet", vocab_size=SYMBOLS)
    assert len(ablate(model, TASK, examples=2, by=by, held=held)) == 1 + count


@pytest.mark.parametrize("split", ["ood", "stress"])
def test_any_split_can_be_asked(split):
    model = recaller((FEW, PLAIN), (EVERY, NONE))
    first = ablate(model, TASK, split=split, examples=COUNT)[0]
    answers = decode(model, Source(TASK).examples(split, 0, COUNT))
    assert first["exact_match"] == pytest.approx(fmean(map(exact, answers)))
    assert first["exact_match"] != ablate(model, TASK, examples=COUNT)[0]["exact_match"]


def test_of_a_mixture_every_task_counts_alike(monkeypatch):
    task = make_task("mixed_all")
    model = model_of("gated_deltanet", vocab_size=task.vocab_size)
    examples = Source(task).examples("iid", 0, 30)

    def answered(_, drawn):
        return [
            Answer(number, question, question.answer if right(example) else (), question.answer)
            for number, example in enumerate(drawn)
            for question in example.questions
        ]

    def right(example):
        return example.task in ("copy", "rebind")

    monkeypatch.setattr(ablation, "decode", answered)
    first = ablate(model, task, examples=30)[0]
    wanted = summarise(examples, answered(None, examples))["exact_match"]
    assert first["exact_match"] == pytest.approx(wanted)
    assert wanted != pytest.approx(fmean(exact(a) for a in answered(None, examples)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "heads"}, r"got 'heads'. Did you mean 'head'\?"),
        ({"held": [{"rho": 0.0}]}, "held must be one of alpha, beta, erase, write; got 'rho'"),
        ({"held": [{"beta": "men"}]}, "beta must be held at a number or \"mean\"; got 'men'"),
        ({"held": [{"beta": 2.0}]}, "beta must be from 0 to 1; got 2.0"),
        ({"during": ["update"]}, "None of the examples has an event of update"),
        ({"during": ["updat"]}, r"got 'updat'. Did you mean 'update'\?"),
    ],
)
def test_what_cannot_be_held_is_refused_in_a_sentence(options, message):
    with pytest.raises(ValueError, match=message):
        ablate(recaller((EVERY, PLAIN), (EVERY, NONE)), TASK, examples=2, **options)


def test_the_size_of_a_loss_is_that_of_a_model_without_the_head():
    """Not by holding β, but by taking what the head adds away."""
    with_both, with_one = (
        recaller((FEW, PLAIN), (REST, PLAIN)),
        recaller((FEW, PLAIN), (REST, NONE)),
    )
    _, *rows = ablate(with_both, TASK, examples=COUNT)
    alone = decode(with_one, Source(TASK).examples("iid", 0, COUNT))
    assert loss_of(rows, 1, beta=0.0)["exact_match"] == fmean(map(exact, alone))
    with intervene(with_both, layer=0, head=1, beta=0.0):
        held = decode(with_both, Source(TASK).examples("iid", 0, COUNT))
    assert [answer.said for answer in held] == [answer.said for answer in alone]

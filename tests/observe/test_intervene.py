"""Holding a coordinate does what a model without that freedom would do."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
import torch
from test_observe import model_of, tokens

from fourfold.evaluation.answers import decode
from fourfold.observe import intervene, observe
from fourfold.tasks import Source, make_task


def test_with_rho_and_lambda_held_at_zero_it_is_the_model_that_never_had_them():
    free = model_of("atpm", "atpm")
    fixed = model_of("atpm", "atpm", atpm_rho=0.0, atpm_lambda=0.0)
    missing, _ = fixed.load_state_dict(free.state_dict(), strict=False)
    assert not missing
    ids = tokens(2, 20)
    with ExitStack() as stack:
        for layer in (0, 1):
            stack.enter_context(intervene(free, layer=layer, rho=0.0, lam=0.0))
        held = free(ids).logits
    torch.testing.assert_close(held, fixed(ids).logits, rtol=1e-4, atol=1e-4)
    assert (free(ids).logits - held).abs().max() > 1e-2


@pytest.mark.parametrize(
    ("layer", "held", "seen"),
    [
        ("atpm", {"rho": 0.25}, {"rho": 0.25}),
        ("atpm", {"lam": 1.0, "alpha": 0.5}, {"lambda": 1.0, "alpha": 0.5, "recall_after": 0.0}),
        ("atpm", {"beta": 0.5}, {"beta_k": 0.5, "beta_v": 0.5}),
        ("atpm", {"beta_k": 0.0}, {"beta_k": 0.0}),
        ("gated_deltanet", {"beta": 0.125}, {"beta": 0.125}),
        ("comba", {"erase": 0.0}, {"erase": 0.0}),
        ("linear_attention", {"alpha": 1.0, "write": 2.5}, {"alpha": 1.0, "write": 2.5}),
    ],
)
@pytest.mark.parametrize("observer_first", [True, False])
def test_one_head_is_held_from_a_token_on_and_the_observer_sees_it(
    layer, held, seen, observer_first
):
    model, ids = model_of(layer, layer), tokens(2, 12)
    with observe(model) as free:
        before = model(ids).logits
    with ExitStack() as stack:
        if observer_first:
            trace = stack.enter_context(observe(model))
        stack.enter_context(intervene(model, layer=1, head=1, start=5, **held))
        if not observer_first:
            trace = stack.enter_context(observe(model))
        during = model(ids).logits
    late = trace.position >= 5
    for name, value in seen.items():
        found, own = trace.of(1, name), free.of(1, name)
        wanted = torch.full((14,), value)
        torch.testing.assert_close(found[late][:, 1], wanted, rtol=0, atol=1e-5)
        assert torch.equal(found[~late], own[~late])
        assert torch.equal(found[late][:, 0], own[late][:, 0])
    assert torch.equal(during[:, :5], before[:, :5])
    assert not torch.equal(during[:, 5:], before[:, 5:])
    assert torch.equal(model(ids).logits, before)


def test_places_are_counted_on_from_piece_to_piece_and_in_every_packed_sequence():
    model, ids = model_of("atpm"), tokens(1, 16)
    with intervene(model, layer=0, start=9, rho=0.0):
        whole = model(ids).logits
        cache = model.new_cache()
        pieces = [model(piece, cache=cache).logits for piece in ids.split([4, 7, 1, 4], dim=1)]
        both = model(torch.cat([ids, ids], 1), cu_seqlens=torch.tensor([0, 16, 32])).logits
        padded = torch.cat([torch.zeros(1, 3, dtype=torch.long), ids], 1)
        mask = torch.ones(1, 19, dtype=torch.long)
        mask[0, :3] = 0
        behind = model(padded, attention_mask=mask).logits[:, 3:]
    assert (model(ids).logits - whole)[:, 9:].abs().max() > 1e-3
    torch.testing.assert_close(torch.cat(pieces, 1), whole, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(behind, whole, rtol=1e-4, atol=1e-4)
    for half in both.chunk(2, dim=1):
        torch.testing.assert_close(half, whole, rtol=1e-4, atol=1e-4)


def test_an_intervention_inside_another_holds_both_and_leaves_the_outer():
    model, ids = model_of("atpm"), tokens(1, 10)
    with intervene(model, layer=0, rho=0.0):
        outer = model(ids).logits
        with intervene(model, layer=0, lam=0.0), observe(model) as trace:
            model(ids)
        assert torch.equal(model(ids).logits, outer)
    assert not trace.of(0, "rho").any()
    assert not trace.of(0, "lambda").any()
    assert "coordinates" not in vars(next(model.memories()))


@pytest.mark.parametrize("hold", ["start", "at"])
def test_answers_of_a_batch_are_those_of_each_example_alone(hold):
    """The contexts are padded to one length, and each question goes on from a fork of a row."""
    task = make_task("overwrite")
    examples = Source(task).examples("iid", 0, 12)
    examples.sort(key=lambda example: len(example.context))
    model = model_of("atpm", "gated_deltanet", vocab_size=task.vocab_size)
    assert len({len(example.context) for example in examples}) > 6

    def places(number):
        if hold == "start":
            return {"start": 30}
        return {"at": [range(len(examples[number].context) + 1, 99)]}

    def together():
        at = {"at": [places(number)["at"][0] for number in range(12)]} if hold == "at" else None
        with intervene(model, layer=0, alpha=0.5, **at or places(0)):
            return [answer.said for answer in decode(model, examples)]

    alone = []
    for number, example in enumerate(examples):
        with intervene(model, layer=0, alpha=0.5, **places(number)):
            alone += [answer.said for answer in decode(model, [example])]
    assert together() == alone
    assert alone != [answer.said for answer in decode(model, examples)]


def test_all_layers_are_held_together_where_they_have_the_coordinate():
    model, ids = model_of("atpm", "attention", "gated_deltanet", "atpm"), tokens(2, 9)
    with ExitStack() as stack:
        for layer in (0, 3):
            stack.enter_context(intervene(model, layer=layer, rho=0.25))
        for layer in (0, 2, 3):
            stack.enter_context(intervene(model, layer=layer, start=4, beta=0.5))
        wanted = model(ids).logits
    with intervene(model, rho=0.25), intervene(model, start=4, beta=0.5), observe(model) as trace:
        found = model(ids).logits
    assert torch.equal(found, wanted)
    assert (trace.of(3, "rho") == 0.25).all()
    assert (trace.of(2, "beta")[trace.position >= 4] == 0.5).all()


def test_each_head_is_held_at_its_own_value_such_as_its_mean():
    model, ids = model_of("atpm"), tokens(2, 9)
    with torch.no_grad():
        next(model.memories()).controller.weight.normal_()
    with observe(model) as free:
        model(ids)
    means = {name: free.summaries[0][name].mean for name in ("rho", "lambda", "alpha")}
    with (
        observe(model) as trace,
        intervene(model, rho=means["rho"], lam=means["lambda"], alpha=means["alpha"].tolist()),
    ):
        model(ids)
    for name, mean in means.items():
        assert free.of(0, name).std(0).min() > 1e-4
        wanted = mean.float().expand(18, 2)
        torch.testing.assert_close(trace.of(0, name), wanted, rtol=1e-5, atol=0)
    with observe(model) as one, intervene(model, head=1, rho=means["rho"]):
        model(ids)
    assert torch.equal(one.of(0, "rho")[:, 0], free.of(0, "rho")[:, 0])
    assert torch.equal(one.of(0, "rho")[:, 1], trace.of(0, "rho")[:, 1])


def test_places_of_each_sequence_are_held_and_no_others_in_forks_too():
    model, ids = model_of("atpm"), tokens(2, 9)
    mask = torch.ones(2, 6, dtype=torch.long)
    mask[0, :2] = 0
    at = [(1, 5, 7), (0, 7)]
    with observe(model) as trace, intervene(model, layer=0, at=at, start=1, rho=0.125):
        cache = model.new_cache()
        model(ids[:, :6], attention_mask=mask, cache=cache)
        fork = cache.fork()
        model(ids[:, 6:], cache=fork)
        cache.select(torch.tensor([1, 0]))
        model(ids[:, 6:], cache=cache)
    held = {
        (sequence, position)
        for sequence, position, rho in zip(
            trace.sequence.tolist(), trace.position.tolist(), trace.of(0, "rho")[:, 0], strict=True
        )
        if rho == 0.125
    }
    # Sequence 2 parted from 1, and 3 from 0.
    assert held == {(0, 1), (0, 5), (1, 7), (2, 7), (3, 5)}


def test_more_sequences_than_there_are_places_for_are_refused():
    model, ids = model_of("atpm"), tokens(2, 3)
    with intervene(model, at=[[1], []], rho=0.0):
        model(ids)
        with pytest.raises(ValueError, match="at has places for 2 sequences, and one more is read"):
            model(ids)

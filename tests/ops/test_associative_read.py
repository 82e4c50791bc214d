"""Reading by kernel regression: what is in reach, how sharp, and that fast is exact."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from fourfold.benchmarks.memory import peak_bytes
from fourfold.ops import associative_read
from fourfold.ops.reach import NOWHERE

REACHES = (
    {},
    {"delay": 9},
    {"delay": 60},
    {"window": 10},
    {"window": 10, "delay": 3},
    {"window": 1},
    {"window": 57},
    {"window": 200, "delay": 5},
)
reaches = pytest.mark.parametrize("reach", REACHES, ids=str)


def inputs(B=2, T=57, H=3, D=8, E=6, dtype=torch.float64):
    draw = torch.Generator().manual_seed(0)

    def normal(*shape):
        return torch.randn(*shape, generator=draw, dtype=torch.float64).to(dtype)

    return {
        "k": F.normalize(normal(B, T, H, D), dim=-1).requires_grad_(),
        "v": normal(B, T, H, E).requires_grad_(),
        "beta0": normal(H).exp().requires_grad_(),
        "beta1": normal(H).exp().requires_grad_(),
        "exponent": torch.sigmoid(normal(H)).requires_grad_(),
    }


def in_reach(t, *, window=None, delay=1):
    return [i for i in range(t - delay + 1) if window is None or i > t - window]


@reaches
@pytest.mark.parametrize("form", ["sequential", "fast"])
def test_it_is_regression_with_a_gaussian_kernel_over_the_pairs_in_reach(reach, form):
    given = {name: value.detach() for name, value in inputs().items()}
    y = associative_read(**given, **reach, form=form)
    k, v, beta0, beta1, exponent = given.values()
    for t in range(k.shape[1]):
        pairs = in_reach(t, **reach)
        if not pairs:
            assert torch.equal(y[:, t], torch.zeros_like(y[:, t]))
            continue
        beta = beta1 * len(pairs) ** exponent + beta0
        distance = (k[:, t, None] - k[:, pairs]).square().sum(-1)  # (B, pairs, H)
        kernel = torch.exp(-beta / 2 * distance)
        wanted = torch.einsum("bih,bihe->bhe", kernel / kernel.sum(1, keepdim=True), v[:, pairs])
        torch.testing.assert_close(y[:, t], wanted, rtol=0, atol=1e-9)


@reaches
def test_the_fast_form_and_its_gradients_are_those_of_the_loop(reach):
    results = []
    for form in ("fast", "sequential"):
        given = inputs()
        y = associative_read(**given, **reach, form=form)
        weights = torch.arange(y.numel(), dtype=y.dtype).sin().view_as(y)
        if not y.requires_grad:  # nothing is ever in reach, and no gradient goes anywhere
            assert not y.any()
            return
        gradients = torch.autograd.grad((y * weights).sum(), given.values())
        results.append([y, *gradients])
    for found, wanted in zip(*results, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)


@reaches
def test_a_changed_pair_changes_only_what_may_read_it(reach):
    given = {name: value.detach() for name, value in inputs(B=1).items()}
    before = associative_read(**given, **reach)
    for pair in (0, 20, 56):
        v = given["v"].clone()
        v[:, pair] += 1
        changed = associative_read(**given | {"v": v}, **reach) != before
        touched = [t for t in range(57) if changed[0, t].any()]
        assert touched == [t for t in range(57) if pair in in_reach(t, **reach)]


def test_the_order_of_stored_pairs_does_not_matter():
    given = {name: value.detach() for name, value in inputs().items()}
    order = torch.randperm(57, generator=torch.Generator().manual_seed(1))
    held = torch.arange(57).expand(2, -1)
    question = {"q": given["k"][:, -4:], "positions": torch.arange(53, 57).expand(2, -1)}
    wanted = associative_read(**given, **question, held=held)
    mixed = {"k": given["k"][:, order], "v": given["v"][:, order]}
    found = associative_read(**given | mixed, **question, held=held[:, order])
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
    torch.testing.assert_close(wanted, associative_read(**given)[:, -4:], rtol=0, atol=1e-12)


@pytest.mark.parametrize(("count", "sharpness"), [(1, 5.0), (10, 2 * 10**0.5 + 3), (1000, 66.2456)])
def test_the_kernel_narrows_as_the_pairs_become_more(count, sharpness):
    # One pair is alike, all others are at a right angle: its weight tells β(n) = 2 √n + 3.
    k = torch.zeros(1, count + 1, 1, 2, dtype=torch.float64)
    k[..., 1] = 1.0
    k[:, [0, count]] = torch.tensor([1.0, 0.0], dtype=torch.float64)
    v = torch.zeros(1, count + 1, 1, 1, dtype=torch.float64)
    v[:, 0] = 1.0
    numbers = {"beta0": 3.0, "beta1": 2.0, "exponent": 0.5}
    given = {name: torch.tensor([x], dtype=torch.float64) for name, x in numbers.items()}
    weight = associative_read(k=k, v=v, **given)[0, -1, 0, 0]
    wanted = 1 / (1 + (count - 1) * torch.exp(torch.tensor(-sharpness, dtype=torch.float64)))
    assert weight.item() == pytest.approx(wanted.item(), rel=1e-6)


@given(
    cuts=st.lists(st.integers(0, 57), max_size=3).map(sorted),
    window=st.sampled_from([None, 1, 7, 30]),
    delay=st.sampled_from([1, 4]),
)
@settings(deadline=None, max_examples=30)
def test_asking_in_pieces_is_asking_at_once(cuts, window, delay):
    given = {name: value.detach() for name, value in inputs().items()}
    whole = associative_read(**given, window=window, delay=delay)
    parts = []
    for start, stop in zip([0, *cuts], [*cuts, 57], strict=True):
        stored = {name: given[name][:, :stop] for name in ("k", "v")}
        asked = given["k"][:, start:stop]
        parts.append(associative_read(**given | stored, q=asked, window=window, delay=delay))
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=0, atol=1e-9)


def test_places_that_hold_nothing_are_not_read_and_rows_may_differ():
    given = {name: value.detach() for name, value in inputs().items()}
    held = torch.arange(57).expand(2, -1).clone()
    held[1] = torch.where(held[1] < 20, -1, held[1] - 20)  # its first twenty places are empty
    positions = torch.stack([torch.arange(50, 57), torch.arange(30, 37)])
    found = associative_read(**given, q=given["k"][:, -7:], positions=positions, held=held)
    alone = {"k": given["k"][1:, 20:], "v": given["v"][1:, 20:]}
    wanted = associative_read(**given | alone)
    torch.testing.assert_close(found[1], wanted[0, -7:], rtol=0, atol=1e-12)
    torch.testing.assert_close(found[0], associative_read(**given)[0, -7:], rtol=0, atol=1e-12)


@given(
    scores=st.integers(1, 300),
    window=st.sampled_from([None, 1, 7, 30]),
    delay=st.sampled_from([1, 4]),
    seed=st.integers(0, 3),
)
@settings(deadline=None, max_examples=30)
def test_looking_at_some_questions_at_a_time_changes_nothing(scores, window, delay, seed):
    draw = torch.Generator().manual_seed(seed)
    gone = torch.rand(2, 57, generator=draw) < 0.2  # slots that hold nothing, questions of no place
    held = torch.arange(57).expand(2, -1).masked_fill(gone, NOWHERE)
    held = held[:, torch.randperm(57, generator=draw)]
    positions = torch.arange(30, 57).expand(2, -1).masked_fill(gone[:, 30:], NOWHERE)
    results = []
    for limit in (scores, 1 << 20):
        given = inputs()
        asked = given["k"][:, 30:]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("fourfold.ops.reach.SCORES", limit)
            y = associative_read(
                **given, q=asked, positions=positions, held=held, window=window, delay=delay
            )
        weights = torch.arange(y.numel(), dtype=y.dtype).sin().view_as(y)
        y = y + 0 * sum(x.sum() for x in given.values())  # also where nothing is in reach
        results.append([y, *torch.autograd.grad((y * weights).sum(), given.values())])
    for found, wanted in zip(*results, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("reach", [{"window": 256}, {"delay": 64}], ids=str)
def test_32_thousand_tokens_fit_in_memory_there_and_back(reach):
    # All scores at once would be 4 GiB; a pass may take a twentieth of it.
    given = inputs(B=1, T=32_768, H=1, D=8, E=8, dtype=torch.float32)

    def run():
        associative_read(**given, **reach).sum().backward()

    assert peak_bytes(run, "cpu") < 200 * 2**20


@pytest.mark.parametrize("reach", [{"window": 256}, {"delay": 64}], ids=str)
def test_8_thousand_questions_behind_stored_pairs_fit_in_memory_there_and_back(reach):
    # All scores at once would be 256 MiB.
    given = inputs(B=1, T=8192, H=1, D=8, E=8, dtype=torch.float32)
    asked = given["k"][:, 64:]

    def run():
        associative_read(**given, q=asked, **reach).sum().backward()

    assert peak_bytes(run, "cpu") < 64 * 2**20


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"delay": 0}, "delay must be an integer from 1; got 0"),
        ({"window": 0}, "window must be an integer from 1, or None; got 0"),
        ({"form": "quick"}, "form must be one of"),
        ({"beta0": torch.ones(2)}, "beta0 must have shape"),
        ({"held": torch.zeros(2, 3)}, "held must be an int64 tensor of shape"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_sentence(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        associative_read(**inputs() | changes)

"""Gated keys: the recurrence, in parallel, in pieces, packed, and at gates of any size."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fourfold.ops import gated_keys

STREAMS = ("x", "log_gate", "log_decay")


def inputs(B=2, T=40, H=3, D=5, *, size=1.0, seed=0):
    draw = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=draw, dtype=torch.float64)

    return {
        "x": normal(B, T, H, D).requires_grad_(),
        "log_gate": (size * normal(B, T, H)).requires_grad_(),
        "log_decay": (-size * normal(B, T, H).abs()).requires_grad_(),
        "initial_state": normal(B, H, D).requires_grad_(),
    }


def by_the_sum(x, log_gate, log_decay, initial_state=None):
    """k̄_t = Σ_s g_s x_s Π λ, at the scale of the greatest weight; then unit norm."""
    decayed = log_decay.cumsum(1)
    weights = log_gate[:, None] + decayed[:, :, None] - decayed[:, None]  # (B, t, s, H)
    tokens = x.shape[1]
    weights = weights.masked_fill(~torch.ones(tokens, tokens).tril().bool()[None, ..., None], -1e9)
    greatest = weights.amax(2)
    total = torch.einsum("btsh,bshd->bthd", (weights - greatest[:, :, None]).exp(), x)
    if initial_state is not None:
        first = (decayed - greatest).exp()[..., None] * initial_state[:, None]
        total = total + first
    return torch.nn.functional.normalize(total, dim=-1)


@pytest.mark.parametrize("form", ["sequential", "scan"])
@pytest.mark.parametrize("given_state", [False, True])
def test_keys_are_the_normalised_sum_of_what_was_read(form, given_state):
    given = inputs()
    if not given_state:
        del given["initial_state"]
    k, state = gated_keys(**given, form=form)
    torch.testing.assert_close(k, by_the_sum(**given), rtol=0, atol=1e-12)
    torch.testing.assert_close(torch.nn.functional.normalize(state, dim=-1), k[:, -1])
    assert torch.allclose(k.norm(dim=-1), torch.ones((), dtype=k.dtype))


def test_the_scan_and_its_gradients_are_those_of_the_loop():
    results = []
    for form in ("sequential", "scan"):
        given = inputs(T=150)
        k, state = gated_keys(**given, form=form)
        weights = torch.arange(k.numel(), dtype=k.dtype).sin().view_as(k)
        gradients = torch.autograd.grad((k * weights).sum() + (state**2).sum(), given.values())
        results.append([k, state, *gradients])
    for wanted, found in zip(*results, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)


def test_gradients_are_those_of_differences():
    given = inputs(B=1, T=5, H=2, D=3)
    assert torch.autograd.gradcheck(
        lambda *x: gated_keys(**dict(zip(given, x, strict=True)), form="scan"),
        tuple(given.values()),
    )


@given(
    lengths=st.lists(st.integers(0, 9), min_size=1, max_size=5),
    form=st.sampled_from(["sequential", "scan"]),
)
@settings(deadline=None, max_examples=30)
def test_packed_sequences_do_not_know_of_each_other(lengths, form):
    given = inputs(B=1, T=sum(lengths))
    state = inputs(B=len(lengths), T=0)["initial_state"]
    offsets = torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()])
    k, final = gated_keys(**given | {"initial_state": state}, cu_seqlens=offsets, form=form)
    for number, (start, stop) in enumerate(pairwise(offsets)):
        own = {name: given[name][:, start:stop] for name in STREAMS}
        alone, end = gated_keys(**own, initial_state=state[number : number + 1], form="sequential")
        torch.testing.assert_close(k[:, start:stop], alone, rtol=0, atol=1e-12)
        torch.testing.assert_close(final[number : number + 1], end, rtol=1e-12, atol=1e-12)


@given(cut=st.integers(0, 40), form=st.sampled_from(["sequential", "scan"]))
@settings(deadline=None, max_examples=20)
def test_reading_in_pieces_is_reading_at_once(cut, form):
    given = inputs()
    whole, end = gated_keys(**given)
    first = {name: given[name][:, :cut] for name in STREAMS}
    then = {name: given[name][:, cut:] for name in STREAMS}
    a, state = gated_keys(**first, initial_state=given["initial_state"], form=form)
    b, final = gated_keys(**then, initial_state=state, form=form)
    torch.testing.assert_close(torch.cat([a, b], 1), whole, rtol=0, atol=1e-12)
    torch.testing.assert_close(final, end, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("size", [30.0, 300.0])
def test_gates_of_any_size_neither_overflow_nor_vanish(size):
    given = {name: value.detach() for name, value in inputs(T=200, size=size).items()}
    for log_gate in (given["log_gate"], given["log_gate"] - 10 * size):
        exact = {name: given[name] for name in STREAMS} | {"log_gate": log_gate}
        wanted = by_the_sum(**exact)
        single = {name: value.float() for name, value in exact.items()}
        found, _ = gated_keys(**single, form="scan")
        assert found.isfinite().all()
        rounded = by_the_sum(**{name: value.double() for name, value in single.items()})
        assert (found - rounded).abs().max() < 1e-3
        assert (rounded - wanted).abs().max() < 1e-2


@pytest.mark.parametrize("form", ["sequential", "scan"])
@pytest.mark.parametrize(
    ("shift", "dtype"), [(-600, torch.float64), (600, torch.float64), (-75, torch.float32)]
)
def test_keys_do_not_depend_on_the_scale_of_the_gates_also_in_pieces(form, shift, dtype):
    exact = {name: inputs(T=20)[name].detach() for name in STREAMS}
    wanted, _ = gated_keys(**exact, form="sequential")
    given = {name: x.to(dtype) for name, x in exact.items()}
    given["log_gate"] = given["log_gate"] + shift
    keys, state = [], None
    for piece in (slice(0, 1), slice(1, 13), slice(13, 20)):
        part = {name: x[:, piece] for name, x in given.items()}
        found, state = gated_keys(**part, initial_state=state, form=form)
        keys.append(found)
    close = {torch.float64: 1e-9, torch.float32: 1e-3}[dtype]
    torch.testing.assert_close(torch.cat(keys, 1).double(), wanted, rtol=0, atol=close)


def test_what_does_not_fit_is_refused_with_a_sentence():
    given = inputs()
    with pytest.raises(ValueError, match="log_gate must have shape"):
        gated_keys(**given | {"log_gate": given["log_gate"][:, :3]})
    with pytest.raises(ValueError, match="form must be one of"):
        gated_keys(**given, form="fast")

"""What theory expects, against brute force and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fourfold.capacity import (
    CapacityStudy,
    expected_accuracy,
    expected_error,
    expected_square_norm,
    weights,
)

RULES = ("delta", "linear", "transported")
KINDS = ("orthogonal", "random", "similar")


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def simulated_weights(rule, kind, *, size, items, decay, similarity, rho, proposal, draws):
    """(draws, n, n): the weight of each value at each address, by the rule, write after write."""
    random = np.random.default_rng(5)
    source = unit(random.standard_normal((draws, items, size)))
    if kind == "orthogonal":
        basis = np.linalg.qr(random.standard_normal((draws, size, size)))[0]
        source = basis[:, np.arange(items) % size]
    if kind == "similar":
        common = unit(random.standard_normal((draws, 1, size)))
        aside = unit(source - common * (source * common).sum(-1, keepdims=True))
        source = similarity**0.5 * common + (1 - similarity) ** 0.5 * aside
    b = proposal * unit(random.standard_normal((draws, items, size)))
    destination = source
    if rule == "transported":
        destination = source + rho * (b - source * (source * b).sum(-1, keepdims=True))
    memory = np.zeros((draws, size, items))
    for item in range(items):
        memory = decay * memory
        found = np.einsum("bsn,bs->bn", memory, source[:, item])
        wrong = np.eye(items)[item] - (0 if rule == "linear" else found)
        memory += destination[:, item, :, None] * np.broadcast_to(wrong, found.shape)[:, None]
    return np.einsum("bsn,bis->bin", memory, source)


@pytest.mark.parametrize(("size", "items", "decay"), [(2, 3, 1.0), (3, 5, 1.0), (8, 10, 0.9)])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rule", RULES)
def test_moments_of_weights_are_those_of_a_simulation(rule, kind, size, items, decay):
    how = dict(decay=decay, similarity=0.4, rho=0.9, proposal=0.95)
    draws = 20_000
    found = simulated_weights(rule, kind, size=size, items=items, draws=draws, **how)
    known = weights(rule, address_dim=size, items=items, addresses=kind, **how)
    for values, expected in ((found, known.mean), (found**2, known.square)):
        spread = values.std(0) / draws**0.5
        assert np.all(np.abs(values.mean(0) - expected) <= 5.5 * spread + 1e-9)


@pytest.mark.parametrize("size", [2, 8, 64])
def test_errors_of_two_items_are_by_hand(size):
    # y − e = −c² e + c e' for the first under the delta rule, with E c² = 1/S and
    # E c⁴ = 3/(S (S + 2)); both have c e' under the additive one.
    delta = weights("delta", address_dim=size, items=2, addresses="random")
    assert expected_error(delta) == pytest.approx((1 / size + 3 / (size * (size + 2))) / 2)
    linear = weights("linear", address_dim=size, items=2, addresses="random")
    assert expected_error(linear) == pytest.approx(1 / size)


def test_errors_of_orthogonal_addresses_are_by_hand():
    # Three items under α = 1/2: the oldest has decayed twice.
    found = weights("delta", address_dim=4, items=3, addresses="orthogonal", decay=0.5)
    assert expected_error(found) == pytest.approx(((1 - 0.25) ** 2 + (1 - 0.5) ** 2) / 3)
    for items in (16, 20, 40):
        found = weights("delta", address_dim=16, items=items, addresses="orthogonal")
        assert expected_error(found) == pytest.approx(2 * (items - 16) / items)
    twice = weights("linear", address_dim=16, items=32, addresses="orthogonal")
    assert expected_error(twice) == pytest.approx(1.0)


@given(
    rule=st.sampled_from(RULES),
    kind=st.sampled_from(KINDS),
    size=st.integers(2, 9),
    items=st.integers(2, 12),
    decay=st.floats(0.5, 1.0),
    similarity=st.floats(0.0, 0.95),
    rho=st.floats(0.0, 1.0),
)
@settings(max_examples=60, deadline=None)
def test_moments_are_possible_and_depend_on_ages_alone(
    rule, kind, size, items, decay, similarity, rho
):
    how = dict(address_dim=size, decay=decay, similarity=similarity, rho=rho, proposal=0.9)
    found = weights(rule, items=items, addresses=kind, **how)
    assert np.all(found.square >= found.mean**2 - 1e-12)
    if rule != "linear":
        # What was written last is read back whole.
        last = np.eye(items)[-1]
        assert found.mean[-1] == pytest.approx(last, abs=1e-12)
        assert found.square[-1] == pytest.approx(last, abs=1e-12)
    if kind != "orthogonal":
        shorter = weights(rule, items=items - 1, addresses=kind, **how)
        assert found.mean[1:, 1:] == pytest.approx(shorter.mean, abs=1e-12)
        assert found.square[1:, 1:] == pytest.approx(shorter.square, abs=1e-12)


@pytest.mark.parametrize("kind", ["orthogonal", "random"])
@pytest.mark.parametrize("heads", [1, 16])
def test_the_line_of_recall_is_near_to_what_is_recalled(kind, heads):
    study = CapacityStudy(
        address_dims=(16,),
        heads=(heads,),
        items=(2, 8, 16, 32, 128),
        addresses=(kind,),
        decays=(1.0,),
        draws=20,
        reads=300,
    )
    rows = list(study.rows())
    for row in rows:
        assert row["expected_accuracy"] == pytest.approx(row["accuracy"], abs=0.1)
    if kind == "orthogonal":
        shares = [row["expected_accuracy"] for row in rows if row["rule"] == "delta"]
        assert shares == pytest.approx([1, 1, 1, 16 / 32, 16 / 128], abs=0.01)


def test_more_columns_and_more_heads_let_more_be_recalled():
    found = weights("delta", address_dim=16, items=32, addresses="random")
    by_columns = [
        expected_accuracy(found, columns=columns, heads=1, codebook=256).mean()
        for columns in (8, 64, 256)
    ]
    assert by_columns == sorted(by_columns)
    assert by_columns[0] < 0.25 < 0.4 < by_columns[1]
    by_heads = [
        expected_accuracy(found, columns=64, heads=heads, codebook=256).mean()
        for heads in (1, 4, 16)
    ]
    assert by_heads[0] + 0.05 < by_heads[1] < by_heads[2]


@pytest.mark.parametrize(("size", "strength", "rho"), [(4, 0.999, 0.0), (4, 0.999, 0.999)])
def test_the_mean_square_norm_along_a_stream_is_that_of_a_simulation(size, strength, rho):
    random = np.random.default_rng(3)
    draws, columns, proposal = 20_000, 3, 0.999
    memory = np.zeros((draws, size, columns))
    for token in range(1, 13):
        source = unit(random.standard_normal((draws, size)))
        b = proposal * unit(random.standard_normal((draws, size)))
        entity = random.standard_normal((draws, columns)) / columns**0.5
        moved = source + rho * (b - source * (source * b).sum(-1, keepdims=True))
        wrong = entity - np.einsum("bsd,bs->bd", memory, source)
        memory += strength * moved[:, :, None] * wrong[:, None]
        squares = (memory**2).sum((1, 2))
        expected = expected_square_norm(
            address_dim=size, tokens=token, strength=strength, rho=rho, proposal=proposal
        )
        assert abs(squares.mean() - expected) < 5 * squares.std() / draws**0.5

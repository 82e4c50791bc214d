"""How much comes back of what untrained operators stored."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fourfold.capacity import CapacityStudy
from fourfold.capacity.operators import IdealMemory
from fourfold.reports.capacity import items_figure, neighbours_figure, variations_figure

SMALL = dict(address_dims=(16,), items=(1, 4, 16), draws=10, reads=1)
PLAIN = SMALL | dict(rules=("delta",), addresses=("random",), decays=(1.0,))


def rows_of(**fields):
    return list(CapacityStudy(**fields).rows())


@pytest.mark.parametrize("kind", ["orthogonal", "random", "similar"])
def test_what_is_measured_is_what_theory_expects_within_standard_errors(kind):
    fields = dict(address_dims=(4, 16), items=(2, 5, 24), addresses=(kind,), decays=(1.0, 0.9))
    for row in rows_of(**fields, columns=(16,), codebook=32, draws=40, reads=1500):
        assert row["error_se"] < 0.3 * row["error"] + 1e-12
        assert row["error"] == pytest.approx(row["expected_error"], abs=5 * row["error_se"] + 1e-10)


def test_few_items_are_drawn_more_often():
    rows = rows_of(**PLAIN | dict(reads=64))
    assert [row["draws"] for row in rows] == [64, 16, 10]


def test_a_standard_error_is_that_of_the_mean_over_draws():
    few = rows_of(**PLAIN | dict(draws=50, items=(8,)))[0]
    many = rows_of(**PLAIN | dict(draws=800, items=(8,)))[0]
    assert few["error_se"] / many["error_se"] == pytest.approx(4, rel=0.35)
    apart = [rows_of(**PLAIN | dict(draws=50, items=(8,), seed=seed))[0] for seed in range(12)]
    found = [row["error"] for row in apart]
    mean = sum(found) / 12
    spread = (sum((x - mean) ** 2 for x in found) / 11) ** 0.5
    assert spread == pytest.approx(few["error_se"], rel=0.6)


@pytest.mark.parametrize("rule", ["delta", "linear"])
def test_orthogonal_addresses_lose_only_what_decays_and_only_as_many_as_there_are(rule):
    fields = dict(SMALL, rules=(rule,), addresses=("orthogonal",), decays=(1.0, 0.9))
    for row in rows_of(**fields | {"items": (1, 8, 16, 32)}):
        if row["items"] > 16:
            assert row["error"] > 0.4
            continue
        assert row["error"] == pytest.approx(row["expected_error"], abs=1e-10)
        assert row["accuracy"] == 1.0


def test_columns_heads_and_similarity_vary_one_at_a_time():
    fields = SMALL | dict(
        rules=("delta",),
        address_dims=(16, 8),
        decays=(1.0, 0.9),
        items=(4,),
        addresses=("random", "similar"),
        columns=(16, 8),
        heads=(2, 4),
        similarity=(0.5, 0.2),
    )
    found = [
        tuple(row[name] for name in ("addresses", "columns", "heads", "similarity"))
        for row in rows_of(**fields)
    ]
    assert set(found) == {
        ("random", 16, 2, None),
        ("random", 8, 2, None),
        ("random", 16, 4, None),
        ("similar", 16, 2, 0.5),
        ("similar", 8, 2, 0.5),
        ("similar", 16, 4, 0.5),
        ("similar", 16, 2, 0.2),
    }
    # Both sizes and both decays for the first, the first of them for what varies.
    assert found.count(("random", 16, 2, None)) == 4
    assert found.count(("random", 8, 2, None)) == 1


def test_more_columns_and_more_heads_recall_more_and_similar_addresses_less():
    fields = PLAIN | dict(items=(32,), columns=(64, 8), heads=(1, 16), draws=30)
    base, few_columns, many_heads = (row["accuracy"] for row in rows_of(**fields))
    assert few_columns + 0.2 < base < many_heads - 0.04
    fields = PLAIN | dict(items=(8,), addresses=("similar",), similarity=(0.0, 0.3, 0.8))
    errors = [row["error"] for row in rows_of(**fields | dict(draws=40))]
    assert errors == sorted(errors)
    assert errors[2] > 1.5 * errors[0]


def test_transport_at_zero_is_the_delta_rule_and_reads_back_a_last_write_whole():
    both = SMALL | dict(addresses=("random",), decays=(1.0,))
    still = rows_of(**both, rules=("delta",))
    moved = rows_of(**both, rules=("transported",), transports=({"rho": 0.0},))
    assert [row["error"] for row in moved] == pytest.approx([row["error"] for row in still])
    strong = dict(rules=("transported",), transports=({"rho": 1.0, "proposal": 0.9},))
    (single,) = rows_of(**both | {"items": (1,)}, **strong)
    assert single["error"] == pytest.approx(0.0, abs=1e-12)


def test_strong_transport_disturbs_orthogonal_addresses_and_weak_transport_hardly():
    fields = PLAIN | dict(rules=("transported",), addresses=("orthogonal",), draws=60)
    rows = {(row["rho"], row["items"]): row for row in rows_of(**fields)}
    assert rows[0.5, 16]["error"] < 0.05
    assert rows[1.0, 16]["error"] > 0.6


def test_writing_some_items_again_hurts_the_others_unless_addresses_are_orthogonal():
    study = CapacityStudy(
        rules=("delta",),
        address_dims=(16,),
        items=(8, 16),
        addresses=("orthogonal", "random"),
        reads=1,
    )
    rows = list(study.neighbours())
    assert {(row["items"], row["overwritten"]) for row in rows} == {
        (8, 2),
        (8, 4),
        (16, 4),
        (16, 8),
    }
    for row in rows:
        assert row["lost"] == pytest.approx(row["accuracy_before"] - row["accuracy_after"])
        if row["addresses"] == "orthogonal":
            assert row["error_after"] == pytest.approx(0.0, abs=1e-12)
            assert row["accuracy_after"] == 1.0
        else:
            assert row["error_after"] > row["error_before"] + 0.05


def test_a_study_depends_on_its_seed_alone():
    first = rows_of(**SMALL, seed=1)
    assert first == rows_of(**SMALL, seed=1)
    assert first != rows_of(**SMALL, seed=2)


def test_an_ideal_memory_loses_what_further_writes_disturb():
    memory = IdealMemory(rule="delta", address_dim=8, columns=32, heads=2, codebook=16)
    alone, _ = memory.recalled(4)
    shares = [memory.recalled(4, further=count, asked=2)[0] for count in (0, 4, 16)]
    assert alone > 0.95
    assert shares == sorted(shares, reverse=True)
    assert shares[2] < 0.6
    # New values at two addresses touch less of the space than sixteen new addresses.
    assert memory.recalled(4, further=16, again=True, asked=2)[0] > shares[2] + 0.2
    # Where nothing is erased they pile up.
    adding = replace(memory, rule="linear")
    piled = [adding.recalled(4, further=count, again=True, asked=2)[0] for count in (0, 4, 16)]
    assert piled == sorted(piled, reverse=True)
    assert piled[2] < piled[0] - 0.08


def test_figures_show_points_with_errors_and_a_line_of_theory_for_every_operator():
    rows = rows_of(**SMALL | dict(decays=(1.0,), columns=(16, 8), similarity=(0.5, 0.1)))
    for measure in ("accuracy", "error"):
        figure = items_figure(rows, measure)
        assert len(figure.axes) == 3
        for axes in figure.axes:
            assert len(axes.containers) == 4  # error bars
            theory = [line for line in axes.get_lines() if len(line.get_xdata()) == 3]
            assert len(theory) == 2 * 4
        (legend,) = figure.legends
        assert any("theory" in text.get_text() for text in legend.get_texts())
    assert len(variations_figure(rows).axes) == 3 * 4  # D; cosine, twice
    assert variations_figure(rows_of(**PLAIN)) is None


def test_neighbours_are_drawn_by_share():
    study = CapacityStudy(**SMALL | dict(decays=(1.0,)))
    figure = neighbours_figure(list(study.neighbours()))
    assert len(figure.axes) == 3 * 2

"""Norms along streams, and the guard's work."""

from __future__ import annotations

import math

import pytest
import torch
from zoo import build

from fourfold.capacity import model_stream, operator_streams, worst_pair
from fourfold.reports.capacity import streams_figure
from fourfold.sessions.guard import limit_state_norm


def small_model(layer="atpm", vocab=90):
    return build(layer, vocab_size=vocab)


def by_stream(rows):
    found = {}
    for row in rows:
        key = tuple(row[name] for name in ("stream", "address_dim", "rho", "seed", "guarded"))
        found.setdefault(key, []).append(row)
    return found


def test_streams_of_operators_come_in_several_sizes_and_seeds():
    streams = by_stream(operator_streams(tokens=1024, address_dims=(8, 16), columns=16, seeds=2))
    random = [key for key in streams if key[0] == "random"]
    assert len(random) == 2 * 2 * 2
    for size in (8, 16):
        for seed in (0, 1):
            still, moved = (streams["random", size, rho, seed, False][-1] for rho in (0.0, 0.999))
            assert still["token"] == moved["token"] == 1024
            assert still["largest"] < moved["largest"] < 1e4
        ends = {streams["random", size, 0.999, seed, False][-1]["norm"] for seed in (0, 1)}
        assert len(ends) == 2


def test_the_largest_norm_so_far_is_kept_and_the_last_look_is_told():
    streams = by_stream(operator_streams(tokens=5000, address_dims=(4,), columns=8))
    rows = streams["random", 4, 0.999, 0, False]
    tokens = [row["token"] for row in rows]
    assert tokens == sorted(set(tokens))
    assert tokens[:3] == [64, 128, 192]
    assert tokens[-1] == 5000
    assert len(rows) < 5000 // 64
    largest = [row["largest"] for row in rows]
    assert largest == sorted(largest)
    assert all(row["largest"] >= row["norm"] for row in rows)
    assert {(row["scaled"], row["scale"]) for row in rows} == {(0, 1.0)}
    assert all(row["expected"] > 0 for row in rows)


def test_the_doubling_stream_overflows_without_a_guard_and_shows_its_work_with_one():
    streams = by_stream(operator_streams(tokens=1024, address_dims=(4,), columns=8))
    free = [row["norm"] for row in streams["doubling", 2, 0.999, 0, False]]
    assert len(free) < 16  # it ends where it overflows
    assert all(map(math.isfinite, free))
    assert 1.98 < (free[1] / free[0]) ** (1 / 32) < 2.001
    guarded = streams["doubling", 2, 0.999, 0, True]
    assert [row["scaled"] for row in guarded] == list(range(1, 17))
    for row in guarded:
        assert 1e6 < row["norm"] < 1e6 * 2.0**32
        assert row["kept"] == pytest.approx(1e6, rel=1e-5)
        assert row["scale"] == pytest.approx(1e6 / row["norm"])


@pytest.mark.parametrize("layer", ["atpm", "lstm"])
def test_the_norms_along_a_stream_are_those_of_the_states(layer):
    model = small_model(layer)
    tokens = torch.randint(90, (200,), generator=torch.Generator().manual_seed(1)).tolist()
    rows = list(model_stream(model, "any", tokens))
    assert [row["token"] for row in rows] == [64, 128, 192, 200]
    cache = model.new_cache()
    with torch.no_grad():
        model(torch.tensor([tokens]), cache=cache)
    if layer == "lstm":
        assert rows[-1]["norm"] == 0.0
        return
    states = [cache.states[number].memory for number in (0, 1)]
    greatest = max(float(state.flatten(2).norm(dim=-1).max()) for state in states)
    assert rows[-1]["norm"] == pytest.approx(greatest, rel=1e-4)


def test_a_guarded_stream_of_a_model_is_what_a_session_does():
    model = small_model()
    tokens = torch.randint(90, (150,), generator=torch.Generator().manual_seed(1)).tolist()
    free = list(model_stream(model, "any", tokens))
    bound = free[0]["norm"] / 2
    rows = list(model_stream(model, "any", tokens, bound=bound))
    cache, scaled = model.new_cache(), 0
    for row, start in zip(rows, (0, 64, 128), strict=True):
        with torch.no_grad():
            model(torch.tensor([tokens[start : start + 64]]), cache=cache)
        events = limit_state_norm(cache, bound) if cache.tokens_seen % 64 == 0 else []
        scaled += len(events)
        assert row["scaled"] == scaled
        assert row["scale"] == pytest.approx(
            min((bound / event.norm for event in events), default=1.0), rel=1e-4
        )
    assert rows[0]["norm"] == pytest.approx(free[0]["norm"])
    assert rows[0]["kept"] == pytest.approx(bound, rel=1e-5)
    assert rows[0]["scaled"] > 0
    assert not any(row["scaled"] for row in free)


def test_the_worst_pair_is_the_one_whose_state_is_longest():
    model = small_model(vocab=5)
    pair = worst_pair(model)
    norms = {}
    for first in range(5):
        for second in range(first + 1, 5):
            tokens = [first, second] * 32
            norms[first, second] = list(model_stream(model, "any", tokens))[-1]["norm"]
    assert norms[pair] == pytest.approx(max(norms.values()), rel=1e-4)
    large = small_model()
    assert worst_pair(large, pairs=3) == worst_pair(large, pairs=3)


def test_the_figure_shows_what_the_guard_keeps_and_by_what_it_multiplies():
    rows = list(operator_streams(tokens=512, address_dims=(4,), columns=8, seeds=2))
    figure = streams_figure(rows)
    random, doubling, scale, _ = figure.axes
    labels = [text.get_text() for text in doubling.get_legend().get_texts()]
    assert "guarded: before it looks" in labels
    assert "guarded: after" in labels
    assert "overflows after this" in labels
    assert len(random.get_legend().get_texts()) == 4  # two seeds, one entry
    (line,) = scale.get_lines()
    assert list(line.get_ydata()) == [
        row["scale"] for row in rows if row["guarded"] and row["stream"] == "doubling"
    ]
    assert "8 times" in scale.get_legend().get_texts()[0].get_text()

"""Rivals of equal size."""

from __future__ import annotations

import pytest

from fourfold import FourfoldConfig
from fourfold.comparison import MODELS, ComparisonOptions, model_configurations
from fourfold.models.matching import count_parameters, match_parameters


def test_the_compared_models_are_within_a_fifth_of_a_percent_of_each_other():
    sizes = [count_parameters(c) for c in model_configurations(ComparisonOptions()).values()]
    assert len(sizes) == len(MODELS) == 4
    assert max(sizes) / min(sizes) < 1.002


def test_a_size_out_of_reach_is_refused():
    with pytest.raises(ValueError, match="are too few for"):
        match_parameters(FourfoldConfig(hidden_size=64), 1000)


def test_a_size_that_no_width_comes_close_to_is_refused():
    config = FourfoldConfig(hidden_size=64, layer_types=["atpm"])
    one_step = 3 * 64
    base = count_parameters(match_parameters(config, 100_000))
    assert match_parameters(config, base + 1, tolerance=0.02).intermediate_size
    with pytest.raises(ValueError, match="No width of the feed-forward brings"):
        match_parameters(config, base + one_step // 2, tolerance=1e-4)

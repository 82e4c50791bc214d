"""How packed sequences are put together to be read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fourfold.layers.packing import SPARED, groups_of


@given(st.lists(st.integers(0, 3000), max_size=40))
def test_a_group_pads_to_little_more_than_twice_its_tokens(lengths):
    groups = groups_of(lengths)
    assert sorted(number for group in groups for number in group) == list(range(len(lengths)))
    for group in groups:
        tokens = [lengths[number] for number in group]
        assert len(group) * max(tokens) <= 2 * sum(tokens) + SPARED


def test_short_sequences_are_read_together_and_a_long_one_alone():
    assert len(groups_of([31, 5, 20, 8] * 8)) == 1
    assert groups_of([10, 4000, 20]) == [[1], [2, 0]]

"""How large the models of a grid are said to be."""

from __future__ import annotations

from fourfold.grid import Grid
from fourfold.grid.cell import STATE_TOKENS
from fourfold.grid.sizes import model_sizes


def test_numbers_of_the_state_are_counted_whatever_their_width():
    models = {name: {"layer": name} for name in ("attention", "gated_deltanet")}
    fields = {"hidden_size": 16, "num_attention_heads": 1, "head_dim": 8, "expand_v": 1.0}
    grid = Grid(
        tasks=["copy"], models=models, parameters=8000, layers=2, fields=fields, rates=[0.01]
    )
    sizes = {size.model: size for size in model_sizes(grid)}
    # Attention: a key and a value of 8 numbers and one position, of eight bytes, for each token.
    assert sizes["attention"].state_numbers == STATE_TOKENS * (8 + 8 + 1)
    assert sizes["attention"].state_bytes == 2 * STATE_TOKENS * (4 * 16 + 8)
    # The delta rule: 8 × 8 numbers and three tokens of three convolved streams.
    assert sizes["gated_deltanet"].state_numbers == 8 * 8 + 3 * 3 * 8

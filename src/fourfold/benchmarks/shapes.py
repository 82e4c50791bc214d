"""The sizes that an operator is timed at."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """B rows of T tokens, H heads, addresses of size S, D entity columns."""

    rows: int
    tokens: int
    heads: int
    address: int
    columns: int

    def __str__(self) -> str:
        return (
            f"B {self.rows:,}, T {self.tokens:,}, H {self.heads}, S {self.address}, "
            f"D {self.columns}"
        )


def parse_shape(text: str) -> Shape:
    """A shape from "B,T,H,S,D".

    Raises:
        ValueError: it is not five positive numbers, or D has no column for each of two views.
    """
    parts = text.split(",")
    if len(parts) != 5 or not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise ValueError(
            f"A shape is five positive numbers B,T,H,S,D, as in 64,64,2,32,64; got {text!r}."
        )
    shape = Shape(*map(int, parts))
    if shape.columns < 2:
        raise ValueError(f"D must be at least 2, a column for each view; got {text!r}.")
    return shape


SHAPES = tuple(
    Shape(*sizes)
    for sizes in (
        (64, 64, 2, 32, 64),
        (32, 256, 4, 16, 32),
        (8, 512, 4, 32, 64),
        (1, 2048, 4, 64, 128),
        (1, 2048, 4, 128, 256),
        (1, 16384, 4, 64, 128),
        (1, 65536, 2, 64, 128),
    )
)
"""From many short rows to a single long one."""

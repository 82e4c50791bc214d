"""Holding a coordinate of a memory where one wants it, to see what it was good for."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from fourfold.layers import ATPM
from fourfold.models import FourfoldForCausalLM
from fourfold.observe.layers import delta_layer, replaced
from fourfold.observe.places import Places
from fourfold.settings import near

OF_ATPM = {
    "alpha": ("log_alpha",),
    "beta": ("beta_k", "beta_v"),
    "beta_k": ("beta_k",),
    "beta_v": ("beta_v",),
    "rho": ("rho",),
    "lam": ("lam",),
}
OF_OTHERS = {
    "alpha": ("log_alpha",),
    "beta": ("erase", "write"),
    "erase": ("erase",),
    "write": ("write",),
}
"""Coordinates that can be held, and the operator's arguments that each is."""


@contextmanager
def intervene(
    model: FourfoldForCausalLM,
    *,
    layer: int,
    head: int | None = None,
    start: int = 0,
    **held: float,
) -> Iterator[None]:
    """Hold coordinates of one layer's memory, whatever the tokens say.

    Args:
        layer: from 0.
        head: from 0; None for all.
        start: place in each sequence from which on they are held.
        held: of ATPM alpha, beta (both views), beta_k, beta_v, rho, lam; of other delta-rule
            layers alpha, beta (erase and write), erase, write. From 0 to 1; alpha above 0.

    Raises:
        ValueError: there is no such layer, head or coordinate, or no such value; a sentence.
    """
    memory = delta_layer(model, layer, argument="layer")
    if head is not None and not 0 <= head < memory.num_heads:
        raise ValueError(f"head must be from 0 to {memory.num_heads - 1}, or None; got {head}.")
    names = OF_ATPM if isinstance(memory, ATPM) else OF_OTHERS
    if not held:
        raise ValueError(f"Give a coordinate to hold: {', '.join(names)}.")
    for name, value in held.items():
        if name not in names:
            raise ValueError(
                f"{model.config.layer_types[layer]} has the coordinates {', '.join(names)}; "
                f"got {name!r}.{near(name, names)}"
            )
        if not 0 <= value <= 1 or (name == "alpha" and value == 0):
            least = "above 0" if name == "alpha" else "from 0"
            raise ValueError(f"{name} must be {least} to 1; got {value}.")
    original = memory.coordinates

    def coordinates(x: Tensor, streams: dict[str, Tensor]) -> dict[str, Tensor]:
        c = dict(original(x, streams))
        here = (places.positions() >= start).to(x.device)[..., None]
        if head is not None:
            heads = torch.arange(memory.num_heads, device=x.device)
            here = here & (heads == head)
        for name, value in held.items():
            for argument in names[name]:
                fixed = math.log(value) if argument == "log_alpha" else value
                c[argument] = torch.where(here, fixed, c[argument])
        return c

    with Places(model) as places, replaced(memory, "coordinates", coordinates):
        yield

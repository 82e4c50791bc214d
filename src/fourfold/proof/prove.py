"""All properties of a layer, and its oracle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from fourfold.layers.base import MemoryLayer
from fourfold.models.registry import Oracle
from fourfold.proof.properties import PROPERTIES, distance, tokens

TOLERANCE = 1e-9


@dataclass(frozen=True)
class Finding:
    """What came of one property.

    Attributes:
        name: the property, in words.
        missed: by how much; None where the layer raised an error instead.
        error: what it raised.
    """

    name: str
    missed: float | None
    error: str = ""

    @property
    def holds(self) -> bool:
        """Whether the property was seen to hold, to rounding."""
        return self.missed is not None and self.missed <= TOLERANCE


def settled(layer: MemoryLayer[Any]) -> MemoryLayer[Any]:
    """``layer`` in float64, not in training, its weights large enough for its memory to matter."""
    layer = layer.double().eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in layer.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.add_(0.3 * noise)
    return layer


def prove(layer: MemoryLayer[Any], oracle: Oracle | None = None) -> Iterator[Finding]:
    """Try every property on ``settled(layer)``, and then its oracle if there is one.

    These are tests at a few sizes, not proofs of a theorem: what fails is wrong, what holds was
    seen to hold.
    """
    layer = settled(layer)
    for check in PROPERTIES:
        yield _found(check.__name__.replace("_", " "), partial(check, layer))
    if oracle is not None:
        yield _found("outputs equal the oracle's", partial(_outputs, layer, oracle))
        yield _found("gradients equal the oracle's", partial(_gradients, layer, oracle))


def _found(name: str, measure: Callable[[], float]) -> Finding:
    try:
        return Finding(name, measure())
    except Exception as error:  # whatever a user's layer raises is a finding
        return Finding(name, None, f"{type(error).__name__}: {error}")


def _outputs(layer: MemoryLayer[Any], oracle: Oracle) -> float:
    x = tokens(layer, 2, 30)
    return distance(layer(x)[0], oracle(layer, x))


def _gradients(layer: MemoryLayer[Any], oracle: Oracle) -> float:
    """Of the inputs and of all parameters."""
    x = tokens(layer, 2, 30).requires_grad_()
    weights = tokens(layer, 2, 30).flip(1)
    needed = [x, *layer.parameters()]
    found, wanted = (
        torch.autograd.grad((y * weights).sum(), needed, allow_unused=True, materialize_grads=True)
        for y in (layer(x)[0], oracle(layer, x))
    )
    return max(distance(one, other) for one, other in zip(found, wanted, strict=True))

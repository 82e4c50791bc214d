"""All properties of a layer, and its oracle."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from fourfold.layers.base import MemoryLayer
from fourfold.memory_files import place_of
from fourfold.models import FourfoldConfig
from fourfold.models.registry import Oracle
from fourfold.proof.in_a_model import IN_A_MODEL
from fourfold.proof.properties import (
    LONG,
    PROPERTIES,
    PropertyError,
    distance,
    gradients_of,
    tokens,
)

TOLERANCE = 1e-9
"""What rounding may make of a property, as a share."""


@dataclass(frozen=True)
class Finding:
    """What came of one property.

    Attributes:
        name: the property, in words.
        missed: by how much; None where no number tells.
        said: then what was found, or which error the layer raised and where.
    """

    name: str
    missed: float | None
    said: str = ""

    @property
    def holds(self) -> bool:
        """Whether the property was seen to hold, to rounding."""
        return self.missed is not None and self.missed <= TOLERANCE


def settled(layer: MemoryLayer[Any]) -> MemoryLayer[Any]:
    """A copy in float64, not in training, whose trained weights are shaken by 0.3 of a normal
    deviate, so that the memory matters."""
    layer = copy.deepcopy(layer).double().eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in layer.parameters():
            if parameter.requires_grad:
                noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
                parameter.add_(0.3 * noise)
    return layer


def prove(
    layer: MemoryLayer[Any],
    oracle: Oracle | None = None,
    *,
    config: FourfoldConfig | None = None,
) -> Iterator[Finding]:
    """Try every property on ``settled(layer)``, its oracle if there is one, and the model of
    ``config`` if that is given.

    These are tests at a few sizes, of up to ``LONG`` tokens: what holds was seen to hold.
    """
    layer = settled(layer)
    for check in PROPERTIES:
        yield _found(check.__name__, partial(check, layer))
    if oracle is not None:
        yield _found("outputs equal the oracle's", partial(_outputs, layer, oracle))
        yield _found("gradients equal the oracle's", partial(_gradients, layer, oracle))
    if config is not None:
        for fits in IN_A_MODEL:
            yield _found(fits.__name__, partial(fits, config))


def _found(name: str, measure: Callable[[], float]) -> Finding:
    name = name.replace("_", " ")
    try:
        return Finding(name, measure())
    except PropertyError as missed:
        return Finding(name, None, str(missed))
    except Exception as error:  # whatever a user's layer raises is a finding
        return Finding(name, None, f"{type(error).__name__}: {error}{place_of(error)}")


def _outputs(layer: MemoryLayer[Any], oracle: Oracle) -> float:
    x = tokens(layer, 2, LONG)
    return distance(layer(x)[0], oracle(layer, x))


def _gradients(layer: MemoryLayer[Any], oracle: Oracle) -> float:
    """Of the inputs and of all parameters that are trained."""
    x, weights = tokens(layer, 2, LONG).requires_grad_(), tokens(layer, 2, LONG, seed=3)
    found, wanted = (
        gradients_of((y * weights).sum(), layer, x) for y in (layer(x)[0], oracle(layer, x))
    )
    return distance(found, wanted)

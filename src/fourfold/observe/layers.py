"""The layers that can be looked at, and methods of theirs replaced for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from fourfold.layers.delta_family import DeltaFamilyLayer
from fourfold.models import FourfoldForCausalLM


def delta_layers(model: FourfoldForCausalLM) -> dict[int, DeltaFamilyLayer]:
    """The delta-rule memories of a model, by the number of their layer.

    Raises:
        ValueError: there is none.
    """
    memories = enumerate(model.memories())
    found = {number: layer for number, layer in memories if isinstance(layer, DeltaFamilyLayer)}
    if not found:
        raise ValueError("None of the model's layers holds a delta-rule memory to look at.")
    return found


def delta_layer(model: FourfoldForCausalLM, number: int, *, argument: str) -> DeltaFamilyLayer:
    """The delta-rule memory of a layer.

    Args:
        argument: that named it, for the message.

    Raises:
        ValueError: that layer is not there, or holds another memory.
    """
    found = delta_layers(model)
    if number not in found:
        raise ValueError(
            f"{argument} must hold a delta-rule memory, which of "
            f"{model.config.num_hidden_layers} layers do: {', '.join(map(str, found))}; "
            f"got {number}."
        )
    return found[number]


@contextmanager
def replaced(layer: DeltaFamilyLayer, name: str, method: Callable[..., Any]) -> Iterator[None]:
    """Let ``layer`` use ``method``, and afterwards what stood there before: the method of its
    class, or one that was put there around this."""
    outer = vars(layer).get(name)
    setattr(layer, name, method)
    try:
        yield
    finally:
        if outer is None:
            delattr(layer, name)
        else:
            setattr(layer, name, outer)

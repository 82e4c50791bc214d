"""Looking at the memories of a model while it reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor

from fourfold.layers.delta_family import DeltaFamilyLayer
from fourfold.models import FourfoldForCausalLM
from fourfold.observe.layers import delta_layer, delta_layers, replaced
from fourfold.observe.places import Places
from fourfold.observe.quantities import measured, rows_of
from fourfold.observe.trace import Summary, Trace


@contextmanager
def observe(
    model: FourfoldForCausalLM,
    layers: Sequence[int] | None = None,
    *,
    last: int | None = None,
    vectors: bool = False,
) -> Iterator[Trace]:
    """Record what the delta-rule memories of ``model`` do, token by token, while it reads.

    What the model computes stays what it was, bit by bit; every state is walked through once more
    beside it, token by token. Outside of this, nothing is done and nothing costs anything.

    Args:
        model: may be called any number of times, with and without a cache, padded or packed.
        layers: those that are watched; None for all that hold a state of this kind.
        last: tokens that are kept; None for all. Summaries are of all tokens.
        vectors: also keep what the last call was made of, for ``Trace.readable``.

    Yields:
        the trace, which grows with every call.

    Raises:
        ValueError: a layer is not there or has no such memory, or none has.
    """
    if last is not None and last < 1:
        raise ValueError(f"last must be 1 or more, or None; got {last}.")
    numbers = delta_layers(model) if layers is None else layers
    watched = {number: delta_layer(model, number, argument="layers") for number in numbers}
    kinds = {layer: model.config.layer_types[layer] for layer in watched}
    trace = Trace(
        kinds=kinds,
        values={layer: {} for layer in watched},
        summaries={layer: {} for layer in watched},
    )

    def index() -> None:
        """Take up the tokens of a call, once all layers have."""
        for name in ("sequence", "position", "token"):
            setattr(trace, name, torch.cat([getattr(trace, name), getattr(places, name)]))
        if trace.events:
            trace.events += [""] * len(places.sequence)
        if last is not None:
            trace.keep(last)

    def wrap(number: int, layer: DeltaFamilyLayer) -> None:
        remember = layer.remember

        def remembering(
            coordinates: dict[str, Tensor], memory: Tensor | None, cu_seqlens: Tensor | None
        ) -> tuple[Tensor, Tensor]:
            result = remember(coordinates, memory, cu_seqlens)
            with torch.no_grad():
                rows, shown = rows_of(layer, coordinates, memory, cu_seqlens)
                if rows.mask.any():
                    _add(trace, number, measured(layer, rows, shown), rows.mask)
                if vectors:
                    trace.rows[number] = rows
            return result

        stack.enter_context(replaced(layer, "remember", remembering))

    with ExitStack() as stack:
        places = stack.enter_context(Places(model, after=index))
        for number, layer in watched.items():
            wrap(number, layer)
        yield trace


def _add(trace: Trace, layer: int, found: dict[str, Tensor], mask: Tensor) -> None:
    for name, values in found.items():
        new = values[mask].cpu()
        before = trace.values[layer].get(name, new[:0])
        trace.values[layer][name] = torch.cat([before, new])
        summary = Summary.of(new)
        known = trace.summaries[layer].get(name)
        trace.summaries[layer][name] = summary if known is None else known.joined(summary)

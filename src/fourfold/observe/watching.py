"""Looking at the memories of a model while it reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fourfold.layers.delta_family import DeltaFamilyLayer
from fourfold.models import FourfoldForCausalLM
from fourfold.observe.layers import delta_layer, delta_layers, replaced
from fourfold.observe.places import Places
from fourfold.observe.quantities import Call
from fourfold.observe.trace import Summary, Trace


@contextmanager
def observe(
    model: FourfoldForCausalLM,
    layers: Sequence[int] | None = None,
    *,
    last: int | None = None,
    reads: bool = False,
    vectors: bool = False,
) -> Iterator[Trace]:
    """Record what the delta-rule memories of ``model`` do, token by token, while it reads.

    What the model computes stays what it was, bit by bit; every state is walked through once more
    beside it, token by token. Outside of this, nothing is done and nothing costs anything.

    Args:
        model: may be called any number of times, with and without a cache, padded or packed.
        layers: those that are watched; None for all that hold a state of this kind.
        last: tokens that are kept; None for all. Summaries are of all tokens.
        reads: also keep what was read itself, in ``Trace.reads``.
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
    seen: dict[int, _Seen] = {}

    def take_up() -> None:
        """Take up the tokens of a call, once all layers have seen them."""
        for name in ("sequence", "position", "token"):
            setattr(trace, name, torch.cat([getattr(trace, name), getattr(places, name)]))
        if trace.events:
            trace.events += [""] * len(places.sequence)
        for number, found in seen.items():
            found.join(trace, number)
        seen.clear()
        if last is not None:
            trace.keep(last)

    def wrap(number: int, layer: DeltaFamilyLayer) -> None:
        remember = layer.remember

        def remembering(
            coordinates: dict[str, Tensor], memory: Tensor | None, cu_seqlens: Tensor | None
        ) -> tuple[Tensor, Tensor]:
            result = remember(coordinates, memory, cu_seqlens)
            with torch.no_grad():
                call, y = Call.of(layer, coordinates, memory, cu_seqlens), result[0].flatten(0, 1)
                seen[number] = _Seen.of(call, y, last=last, reads=reads)
                if vectors:
                    trace.rows[number] = call.rows()
            return result

        stack.enter_context(replaced(layer, "remember", remembering))

    with ExitStack() as stack:
        places = stack.enter_context(Places(model, after=take_up))
        for number, layer in watched.items():
            wrap(number, layer)
        yield trace


@dataclass
class _Seen:
    """What was seen of a layer in one call.

    values: (l, H) each, of the last l tokens. summaries: of all. reads: (l, H, D) or None.
    """

    values: dict[str, Tensor] = field(default_factory=dict)
    summaries: dict[str, Summary] = field(default_factory=dict)
    reads: Tensor | None = None

    @classmethod
    def of(cls, call: Call, y: Tensor, *, last: int | None, reads: bool) -> _Seen:
        """Of y (L, H, D), what was read."""
        seen = cls()
        first = 0 if last is None else max(0, len(y) - last)
        for places, found in call.measured(y):
            kept = (places >= first).cpu()
            rows = (places.cpu() - first)[kept]
            for name, found_values in found.items():
                values = found_values.cpu()
                whole = seen.values.setdefault(
                    name, values.new_empty(len(y) - first, *values.shape[1:])
                )
                whole[rows] = values[kept]
                _summarise(seen.summaries, name, Summary.of(values))
        if reads:
            precise = torch.promote_types(y.dtype, torch.float32)
            seen.reads = y[first:].detach().to("cpu", precise, copy=True)
        return seen

    def join(self, trace: Trace, layer: int) -> None:
        """Add it to what the trace has of the layer."""
        for name, new in self.values.items():
            known = trace.values[layer].get(name, new[:0])
            trace.values[layer][name] = torch.cat([known, new])
        for name, summary in self.summaries.items():
            _summarise(trace.summaries[layer], name, summary)
        if self.reads is not None:
            before = trace.reads.get(layer, self.reads[:0])
            trace.reads[layer] = torch.cat([before, self.reads])


def _summarise(summaries: dict[str, Summary], name: str, new: Summary) -> None:
    summaries[name] = summaries[name].joined(new) if name in summaries else new

"""Holding a coordinate of a memory where one wants it, to see what it was good for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor

from fourfold.layers import ATPM
from fourfold.layers.delta_family import DeltaFamilyLayer
from fourfold.models import FourfoldForCausalLM
from fourfold.observe.layers import delta_layer, delta_layers, replaced
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


Value = float | Sequence[float] | Tensor
"""One number, or one for each head."""


@contextmanager
def intervene(
    model: FourfoldForCausalLM,
    *,
    layer: int | None = None,
    head: int | None = None,
    start: int = 0,
    at: Sequence[Iterable[int]] | None = None,
    **held: Value,
) -> Iterator[None]:
    """Hold coordinates of memories, whatever the tokens say.

    Args:
        layer: from 0; None for all that have them.
        head: from 0; None for all.
        start: place in each sequence from which on they are held; padding has no place.
        at: the places at which they are held, and nowhere else: those of the first sequence that is
            read, those of the second, and so on. What goes on from a fork of a sequence has the
            places of that sequence. None for all.
        held: of ATPM alpha, beta (both views), beta_k, beta_v, rho, lam; of other delta-rule
            layers alpha, beta (erase and write), erase, write. A number, or (H,), one for each
            head, such as a mean that a trace has found. From 0 to 1, alpha above 0; erase and
            write, which not every layer bounds, from 0.

    Raises:
        ValueError: there is no such layer, head or coordinate, or no such value, or more sequences
            are read than ``at`` has places for; a sentence.
    """
    numbers = list(delta_layers(model)) if layer is None else [layer]
    memories = {number: delta_layer(model, number, argument="layer") for number in numbers}
    fixed = _checked(model, memories, held)
    for memory in memories.values():
        if head is not None and not 0 <= head < memory.num_heads:
            raise ValueError(f"head must be from 0 to {memory.num_heads - 1}, or None; got {head}.")
    keys = None if at is None else _keys(at)

    def here() -> Tensor:
        """(B, T), where they are held."""
        wanted = places.position >= start
        if keys is not None and at is not None:
            if places.text.numel() and int(places.text.max()) >= len(at):
                raise ValueError(f"at has places for {len(at)} sequences, and one more is read.")
            wanted &= torch.isin(places.text * _FAR + places.position, keys)
        return places.in_layout(wanted)

    def wrap(memory: DeltaFamilyLayer, values: Mapping[str, Tensor]) -> None:
        original = memory.coordinates

        def coordinates(x: Tensor, streams: dict[str, Tensor]) -> dict[str, Tensor]:
            c = dict(original(x, streams))
            wanted = here().to(x.device)[..., None]
            if head is not None:
                wanted = wanted & (torch.arange(memory.num_heads, device=x.device) == head)
            for argument, value in values.items():
                c[argument] = torch.where(wanted, value.to(c[argument]), c[argument])
            return c

        stack.enter_context(replaced(memory, "coordinates", coordinates))

    with Places(model) as places, ExitStack() as stack:
        for number, values in fixed.items():
            wrap(memories[number], values)
        yield


_FAR = 1 << 40
"""More than the tokens of any sequence."""


def names_of(memory: DeltaFamilyLayer) -> dict[str, tuple[str, ...]]:
    """Coordinates of a layer that can be held, and the operator's arguments that each is."""
    return OF_ATPM if isinstance(memory, ATPM) else OF_OTHERS


def _keys(at: Sequence[Iterable[int]]) -> Tensor:
    keys = [text * _FAR + place for text, places in enumerate(at) for place in places]
    return torch.tensor(keys, dtype=torch.long)


def _checked(
    model: FourfoldForCausalLM,
    memories: Mapping[int, DeltaFamilyLayer],
    held: Mapping[str, Value],
) -> dict[int, dict[str, Tensor]]:
    """Of each layer that has one of them, the operator's arguments and their values.

    Raises:
        ValueError: a sentence.
    """
    known = list(dict.fromkeys(name for memory in memories.values() for name in names_of(memory)))
    if not held:
        raise ValueError(f"Give a coordinate to hold: {', '.join(known)}.")
    fixed: dict[int, dict[str, Tensor]] = {number: {} for number in memories}
    for name, value in held.items():
        if name not in known:
            kinds = dict.fromkeys(model.config.layer_types[number] for number in memories)
            raise ValueError(
                f"The coordinates of {' and '.join(kinds)} are {', '.join(known)}; "
                f"got {name!r}.{near(name, known)}"
            )
        values = torch.as_tensor(value, dtype=torch.float64)
        _check_range(name, value, values)
        for number, memory in memories.items():
            if values.shape not in ((), (memory.num_heads,)):
                raise ValueError(
                    f"{name} must be one number, or one for each of {memory.num_heads} heads; "
                    f"got {tuple(values.shape)}."
                )
            for argument in names_of(memory).get(name, ()):
                fixed[number][argument] = values.log() if argument == "log_alpha" else values
    return fixed


def _check_range(name: str, value: Value, values: Tensor) -> None:
    """See that a coordinate can have these values.

    Raises:
        ValueError: a sentence.
    """
    most = math.inf if name in ("erase", "write") else 1.0
    fits = bool(((values >= 0) & (values <= most) & values.isfinite()).all())
    if not fits or (name == "alpha" and 0 in values):
        bounds = {"alpha": "above 0 to 1", "erase": "0 or more", "write": "0 or more"}
        raise ValueError(f"{name} must be {bounds.get(name, 'from 0 to 1')}; got {value}.")

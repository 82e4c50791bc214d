"""What every memory layer must do, each property by itself.

A property takes a layer in float64 and returns by how much it is missed: the greatest difference
between two results that should be one, as a share of the greatest number among them. What is missed
altogether raises ``PropertyError`` with a sentence.

Legend: B rows, T tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from fourfold.layers.base import MemoryLayer
from fourfold.layers.state import LayerState

Layer = MemoryLayer[Any]
Property = Callable[[Layer], float]

LONG = 150
"""Tokens of the longest sequences that are read; more than two chunks of the usual size."""

_SEEN_BY_DIFFERENCES = 1e-5
"""Share of a derivative below which a difference quotient cannot tell a fault from curvature."""

_MATTERS = 1e-6
"""Share of an output that a changed token must change."""


class PropertyError(Exception):
    """A property is missed in a way that no number tells."""


def tokens(layer: Layer, *shape: int, seed: int = 2) -> Tensor:
    """Inputs (*shape, hidden_size), the same for every layer of a size."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, layer.hidden_size, generator=generator, dtype=torch.float64)


def distance(one: Tensor, other: Tensor) -> float:
    """The greatest difference as a share of the greatest number.

    Raises:
        PropertyError: the shapes differ, or a result is no number.
    """
    if one.shape != other.shape:
        raise PropertyError(
            f"One result has shape {tuple(one.shape)}, the other {tuple(other.shape)}."
        )
    if not one.numel():
        return 0.0
    one, other = one.detach(), other.detach()
    found, scale = float((one - other).abs().max()), float(torch.stack([one, other]).abs().max())
    if not math.isfinite(found):
        raise PropertyError("A result holds NaN or infinity.")
    return found / scale if scale else found


def state_distance(
    layer: Layer, state: LayerState | None, other: LayerState | None, x: Tensor
) -> float:
    """Two states are one if whatever follows comes out the same."""
    return distance(layer(x, state)[0], layer(x, other)[0])


def token_by_token_equals_all_at_once(layer: Layer) -> float:
    """Single steps from state to state, against one call; and the states behind them."""
    x = tokens(layer, 2, LONG)
    whole, final = layer(x)
    state, steps = None, []
    for t in range(LONG):
        y, state = layer(x[:, t : t + 1], state)
        steps.append(y)
    after = state_distance(layer, state, final, tokens(layer, 2, 4))
    return max(distance(torch.cat(steps, 1), whole), after)


def uneven_pieces_equal_all_at_once(
    layer: Layer, cuts: Sequence[int] = (3, 3, 10, 90), length: int = LONG
) -> float:
    """Pieces of any length, one of them empty, each from the state behind the last."""
    x = tokens(layer, 2, length)
    whole, _ = layer(x)
    state, pieces = None, []
    for start, end in zip([0, *cuts], [*cuts, length], strict=True):
        y, state = layer(x[:, start:end], state)
        pieces.append(y)
    return distance(torch.cat(pieces, 1), whole)


def packed_sequences_equal_each_alone(
    layer: Layer, lengths: Sequence[int] = (7, 0, 1, LONG - 8)
) -> float:
    """Sequences packed into one row by ``cu_seqlens``, from an empty memory and going on; the
    gradients of inputs and parameters too."""
    x = tokens(layer, 1, sum(lengths)).requires_grad_()
    weights = tokens(layer, 2, sum(lengths), seed=3)
    offsets = torch.tensor([0, *lengths]).cumsum(0)
    y, state = layer(x, cu_seqlens=offsets)
    further, _ = layer(x, state, cu_seqlens=offsets)
    apart, apart_further = [], []
    for start, stop in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        alone, alone_state = layer(x[:, start:stop])
        apart.append(alone)
        apart_further.append(layer(x[:, start:stop], alone_state)[0])
    packed = torch.cat([y, further])
    each = torch.cat([torch.cat(apart, 1), torch.cat(apart_further, 1)])
    missed = distance(packed, each)
    if not x.numel():
        return missed
    found, wanted = (gradients_of((y * weights).sum(), layer, x) for y in (packed, each))
    return max(missed, distance(found, wanted))


def padding_is_as_if_it_were_not_there(layer: Layer) -> float:
    """Padding at the left, at the right and in the middle, by ``mask``."""
    x = tokens(layer, 3, 15)
    mask = torch.ones(3, 15, dtype=torch.long)
    mask[0, :6] = mask[1, 10:] = mask[1, 4:6] = 0
    y, state = layer(x, mask=mask)
    further, _ = layer(x[:, :4], state)
    if bool(y[mask == 0].any()):
        raise PropertyError("The output at padding is not zero.")
    missed = []
    for row in range(3):
        kept = mask[row].bool()
        alone, alone_state = layer(x[row : row + 1, kept])
        missed.append(distance(y[row : row + 1, kept], alone))
        warm = layer(x[row : row + 1, :4], alone_state)[0]
        missed.append(distance(further[row : row + 1], warm))
    return max(missed)


def what_padding_holds_never_matters(layer: Layer) -> float:
    """NaN in the padding spoils nothing."""
    x = tokens(layer, 2, 9)
    mask = torch.ones(2, 9, dtype=torch.bool)
    mask[0, :4] = False
    poisoned = x.clone()
    poisoned[0, :4] = float("nan")
    return distance(layer(poisoned, mask=mask)[0], layer(x, mask=mask)[0])


def a_row_of_padding_alone_leaves_its_state(layer: Layer) -> float:
    """A sequence that pauses while others are read."""
    x = tokens(layer, 2, 6)
    _, state = layer(x)
    paused = state.map(torch.clone)
    _, after = layer(x[:, :3], state, mask=torch.tensor([[1, 1, 1], [0, 0, 0]]))
    row = torch.tensor([1])
    return state_distance(layer, after.select(row), paused.select(row), tokens(layer, 1, 5))


def a_future_token_never_changes_a_past_output(layer: Layer) -> float:
    """Causality."""
    x = tokens(layer, 1, LONG)
    changed = x.clone()
    changed[:, 90:] = tokens(layer, 1, LONG - 90, seed=3)
    return distance(layer(x)[0][:, :90], layer(changed)[0][:, :90])


def a_past_token_changes_later_outputs(layer: Layer) -> float:
    """It is a memory."""
    x = tokens(layer, 1, 20)
    changed = x.clone()
    changed[:, 10] = tokens(layer, 1, 1, seed=3)[:, 0]
    if distance(layer(x)[0][:, 11:], layer(changed)[0][:, 11:]) < _MATTERS:
        raise PropertyError(
            "Another token in the eleventh place changes none of the nine outputs behind it."
        )
    return 0.0


def a_state_is_never_changed_by_going_on_from_it(layer: Layer) -> float:
    """In any of the ways to go on, so that to hold on to a state is to keep it."""
    x = tokens(layer, 2, 9)
    _, state = layer(x)
    before = {name: tensor.clone() for name, tensor in state.named_tensors().items()}
    layer(x, state)
    layer(x[:, :1], state)
    layer(x, state, mask=torch.ones(2, 9).tril(5))
    layer(x[:1], state, cu_seqlens=torch.tensor([0, 4, 9]))
    for name, tensor in state.named_tensors().items():
        if not torch.equal(tensor, before[name]):
            raise PropertyError(f"{name} of the state was changed.")
    return 0.0


def the_empty_state_equals_none(layer: Layer) -> float:
    """``initial_state`` is what None stands for, with the same tensors as any other state."""
    x = tokens(layer, 2, 9)
    empty = layer.initial_state(2, dtype=torch.float64)
    y, state = layer(x, empty)
    names, others = (", ".join(sorted(s.named_tensors())) for s in (empty, state))
    if names != others:
        raise PropertyError(f"The empty state has {names}, one that has read {others}.")
    return distance(y, layer(x)[0])


def a_sequence_that_begins_anew_has_read_nothing(layer: Layer) -> float:
    """``resume`` of a state, which training on documents rests on; see ``LayerState.emptied``."""
    _, state = layer(tokens(layer, 2, 9))
    further = tokens(layer, 2, 7)
    found = layer(further, state.resume(torch.tensor([-1, 0])))[0]
    fresh = layer(further[:1])[0]
    warm = layer(further[1:], state.select(torch.tensor([0])))[0]
    return distance(found, torch.cat([fresh, warm]))


def no_tokens_change_nothing(layer: Layer) -> float:
    """A call without tokens."""
    y, state = layer(tokens(layer, 2, 0))
    if y.shape != (2, 0, layer.hidden_size):
        raise PropertyError(f"The output for no tokens has shape {tuple(y.shape)}.")
    return state_distance(layer, state, None, tokens(layer, 2, 3))


def gradients_flow_through_a_carried_state(layer: Layer) -> float:
    """To the tokens before it, as in one call; and some must flow."""
    x = tokens(layer, 1, 12).requires_grad_()
    whole = torch.autograd.grad(layer(x)[0][:, 6:].sum(), x)[0]
    if not bool(whole[:, :6].any()):
        raise PropertyError("No gradient flows from later outputs to earlier tokens.")
    _, state = layer(x[:, :6])
    carried = torch.autograd.grad(layer(x[:, 6:], state)[0].sum(), x)[0]
    return distance(carried, whole)


def gradients_of_inputs_are_those_of_the_outputs(layer: Layer) -> float:
    """Along one direction, against the outputs of two inputs close together."""
    x = tokens(layer, 1, LONG // 2).requires_grad_()
    along, weights = tokens(layer, 1, LONG // 2, seed=3), tokens(layer, 1, LONG // 2, seed=4)
    (gradient,) = torch.autograd.grad((layer(x)[0] * weights).sum(), x)

    def moved(step: float) -> Tensor:
        return (layer(x + step * along)[0] * weights).sum()

    return _against_differences(float((gradient * along).sum()), moved)


def gradients_of_parameters_are_those_of_the_outputs(layer: Layer) -> float:
    """Along one direction of all that are trained, against two layers close together."""
    x, weights = tokens(layer, 1, LONG // 2), tokens(layer, 1, LONG // 2, seed=4)
    parameters = _trained(layer)
    if not parameters:
        return 0.0
    generator = torch.Generator().manual_seed(5)
    along = [torch.randn(p.shape, generator=generator, dtype=torch.float64) for p in parameters]
    gradients = gradients_of((layer(x)[0] * weights).sum(), layer)
    kept = [parameter.detach().clone() for parameter in parameters]

    def moved(step: float) -> Tensor:
        for parameter, first, direction in zip(parameters, kept, along, strict=True):
            parameter.copy_(first + step * direction)
        y = (layer(x)[0] * weights).sum()
        for parameter, first in zip(parameters, kept, strict=True):
            parameter.copy_(first)
        return y

    found = float(gradients @ torch.cat([direction.flatten() for direction in along]))
    return _against_differences(found, moved)


def rows_can_be_selected_and_repeated(layer: Layer) -> float:
    """States of some sequences, in another order and twice."""
    x, further = tokens(layer, 3, 7), tokens(layer, 3, 3)
    index = torch.tensor([2, 0, 2])
    found = layer(further, layer(x)[1].select(index))[0]
    alone = [layer(torch.cat([x[row], further[i]])[None])[0][:, 7:] for i, row in enumerate(index)]
    return distance(found, torch.cat(alone))


def _trained(layer: Layer) -> list[nn.Parameter]:
    return [parameter for parameter in layer.parameters() if parameter.requires_grad]


def gradients_of(y: Tensor, layer: Layer, *inputs: Tensor) -> Tensor:
    """Of inputs and all parameters that are trained, one behind the other; zero where none flows.

    One vector, so that they are compared by their common scale: some may be rounding alone.
    """
    needed = [*inputs, *_trained(layer)]
    found = torch.autograd.grad(
        y, needed, retain_graph=True, allow_unused=True, materialize_grads=True
    )
    return torch.cat([gradient.flatten() for gradient in found])


def _against_differences(found: float, moved: Callable[[float], Tensor]) -> float:
    """By how much a derivative misses the difference quotient."""
    step = 1e-5
    with torch.no_grad():
        measured = float(moved(step) - moved(-step)) / (2 * step)
    missed = abs(found - measured) / max(abs(found), abs(measured), 1e-300)
    return 0.0 if missed < _SEEN_BY_DIFFERENCES else missed


PROPERTIES: tuple[Property, ...] = (
    token_by_token_equals_all_at_once,
    uneven_pieces_equal_all_at_once,
    packed_sequences_equal_each_alone,
    padding_is_as_if_it_were_not_there,
    what_padding_holds_never_matters,
    a_row_of_padding_alone_leaves_its_state,
    a_future_token_never_changes_a_past_output,
    a_past_token_changes_later_outputs,
    a_state_is_never_changed_by_going_on_from_it,
    the_empty_state_equals_none,
    a_sequence_that_begins_anew_has_read_nothing,
    no_tokens_change_nothing,
    gradients_flow_through_a_carried_state,
    gradients_of_inputs_are_those_of_the_outputs,
    gradients_of_parameters_are_those_of_the_outputs,
    rows_can_be_selected_and_repeated,
)

"""What every memory layer must do, each property by itself.

A property takes a layer in float64 and returns by how much it is missed, the greatest difference
between two results that should be one; where nothing may differ, any difference is infinite.

Legend: B rows, T tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from fourfold.layers.base import MemoryLayer
from fourfold.layers.state import LayerState

Layer = MemoryLayer[Any]
Property = Callable[[Layer], float]

_SEEN_BY_DIFFERENCES = 1e-5
"""Share of a derivative below which a difference quotient cannot tell a fault from curvature."""


def tokens(layer: Layer, *shape: int) -> Tensor:
    """Inputs (*shape, hidden_size), the same for every layer of a size."""
    generator = torch.Generator().manual_seed(2)
    return torch.randn(*shape, layer.hidden_size, generator=generator, dtype=torch.float64)


def distance(one: Tensor, other: Tensor) -> float:
    """The greatest difference; infinite where a result is no number or of another shape."""
    if one.shape != other.shape:
        return float("inf")
    if not one.numel():
        return 0.0
    found = float((one - other).detach().abs().max())
    return float("inf") if math.isnan(found) else found


def state_distance(
    layer: Layer, state: LayerState | None, other: LayerState | None, x: Tensor
) -> float:
    """Two states are one if whatever follows comes out the same."""
    return distance(layer(x, state)[0], layer(x, other)[0])


def token_by_token_equals_all_at_once(layer: Layer) -> float:
    """Single steps from state to state, against one call; and the states behind them."""
    x = tokens(layer, 2, 21)
    whole, final = layer(x)
    state, steps = None, []
    for t in range(21):
        y, state = layer(x[:, t : t + 1], state)
        steps.append(y)
    after = state_distance(layer, state, final, tokens(layer, 2, 4))
    return max(distance(torch.cat(steps, 1), whole), after)


def uneven_pieces_equal_all_at_once(layer: Layer, cuts: Sequence[int] = (3, 3, 10, 27)) -> float:
    """Pieces of any length, one of them empty, each from the state behind the last."""
    x = tokens(layer, 2, 30)
    whole, _ = layer(x)
    state, pieces = None, []
    for start, end in zip([0, *cuts], [*cuts, 30], strict=True):
        y, state = layer(x[:, start:end], state)
        pieces.append(y)
    return distance(torch.cat(pieces, 1), whole)


def packed_sequences_equal_each_alone(
    layer: Layer, lengths: Sequence[int] = (7, 0, 1, 13)
) -> float:
    """Sequences packed into one row by ``cu_seqlens``, from an empty memory and going on."""
    x = tokens(layer, 1, sum(lengths))
    offsets = torch.tensor([0, *lengths]).cumsum(0)
    y, state = layer(x, cu_seqlens=offsets)
    further, _ = layer(x, state, cu_seqlens=offsets)
    missed = [0.0]
    for start, stop in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        alone, alone_state = layer(x[:, start:stop])
        missed.append(distance(y[:, start:stop], alone))
        warm = layer(x[:, start:stop], alone_state)[0]
        missed.append(distance(further[:, start:stop], warm))
    return max(missed)


def padding_is_as_if_it_were_not_there(layer: Layer) -> float:
    """Padding at the left, at the right and in the middle, by ``mask``."""
    x = tokens(layer, 3, 15)
    mask = torch.ones(3, 15, dtype=torch.long)
    mask[0, :6] = mask[1, 10:] = mask[1, 4:6] = 0
    y, state = layer(x, mask=mask)
    further, _ = layer(x[:, :4], state)
    missed = [float("inf") if bool(y[mask == 0].any()) else 0.0]
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
    return _exact(torch.equal(layer(poisoned, mask=mask)[0], layer(x, mask=mask)[0]))


def a_row_of_padding_alone_leaves_its_state(layer: Layer) -> float:
    """A sequence that pauses while others are read."""
    x = tokens(layer, 2, 6)
    _, state = layer(x)
    _, after = layer(x[:, :3], state, mask=torch.tensor([[1, 1, 1], [0, 0, 0]]))
    row = torch.tensor([1])
    return state_distance(layer, after.select(row), state.select(row), tokens(layer, 1, 5))


def a_future_token_never_changes_a_past_output(layer: Layer) -> float:
    """Causality; and the changed tokens themselves must matter."""
    x = tokens(layer, 1, 20)
    changed = x.clone()
    changed[:, 12:] += 1
    y, other = layer(x)[0], layer(changed)[0]
    matters = not torch.allclose(y[:, 12:], other[:, 12:])
    return distance(y[:, :12], other[:, :12]) if matters else float("inf")


def a_state_is_never_changed_by_going_on_from_it(layer: Layer) -> float:
    """So that to hold on to a state is to keep it."""
    x = tokens(layer, 2, 9)
    _, state = layer(x)
    before = {name: tensor.clone() for name, tensor in state.named_tensors().items()}
    layer(x, state)
    layer(x[:, :1], state)
    after = state.named_tensors()
    return _exact(all(torch.equal(after[name], tensor) for name, tensor in before.items()))


def the_empty_state_equals_none(layer: Layer) -> float:
    """``initial_state`` is what None stands for, with the same tensors as any other state."""
    x = tokens(layer, 2, 9)
    empty = layer.initial_state(2, dtype=torch.float64)
    y, state = layer(x, empty)
    same = state.named_tensors().keys() == empty.named_tensors().keys()
    return distance(y, layer(x)[0]) if same else float("inf")


def no_tokens_change_nothing(layer: Layer) -> float:
    """A call without tokens."""
    y, state = layer(tokens(layer, 2, 0))
    after = state_distance(layer, state, None, tokens(layer, 2, 3))
    return after if y.shape == (2, 0, layer.hidden_size) else float("inf")


def gradients_flow_through_a_carried_state(layer: Layer) -> float:
    """To the tokens before it, as in one call; and some must flow."""
    x = tokens(layer, 1, 12).requires_grad_()
    whole = torch.autograd.grad(layer(x)[0][:, 6:].sum(), x)[0]
    _, state = layer(x[:, :6])
    carried = torch.autograd.grad(layer(x[:, 6:], state)[0].sum(), x)[0]
    return distance(carried, whole) if bool(whole[:, :6].any()) else float("inf")


def gradients_are_those_of_the_outputs(layer: Layer) -> float:
    """Along one direction of the inputs, against the outputs of two inputs close together."""
    x = tokens(layer, 1, 7).requires_grad_()
    generator = torch.Generator().manual_seed(3)
    along, weights = (torch.randn(x.shape, generator=generator).double() for _ in range(2))
    (gradient,) = torch.autograd.grad((layer(x)[0] * weights).sum(), x)
    step = 1e-5
    with torch.no_grad():
        ends = [(layer(x + sign * step * along)[0] * weights).sum() for sign in (1, -1)]
    found, measured = float((gradient * along).sum()), float(ends[0] - ends[1]) / (2 * step)
    missed = abs(found - measured) / max(1.0, abs(measured))
    return 0.0 if missed < _SEEN_BY_DIFFERENCES else missed


def rows_can_be_selected_and_repeated(layer: Layer) -> float:
    """States of some sequences, in another order and twice."""
    _, state = layer(tokens(layer, 3, 7))
    index, further = torch.tensor([2, 0, 2]), tokens(layer, 3, 3)
    expected = torch.cat(
        [layer(further[i : i + 1], state.select(index[i : i + 1]))[0] for i in range(3)]
    )
    return distance(layer(further, state.select(index))[0], expected)


def _exact(same: bool) -> float:
    return 0.0 if same else float("inf")


PROPERTIES: tuple[Property, ...] = (
    token_by_token_equals_all_at_once,
    uneven_pieces_equal_all_at_once,
    packed_sequences_equal_each_alone,
    padding_is_as_if_it_were_not_there,
    what_padding_holds_never_matters,
    a_row_of_padding_alone_leaves_its_state,
    a_future_token_never_changes_a_past_output,
    a_state_is_never_changed_by_going_on_from_it,
    the_empty_state_equals_none,
    no_tokens_change_nothing,
    gradients_flow_through_a_carried_state,
    gradients_are_those_of_the_outputs,
    rows_can_be_selected_and_repeated,
)

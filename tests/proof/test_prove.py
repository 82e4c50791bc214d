"""What is wrong with a layer is found, and by the property that it misses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from fourfold.cli import app
from fourfold.layers import GatedDeltaNet, RecurrentState
from fourfold.models import register_layer, sizes_of
from fourfold.models.registry import LAYER_TYPES
from fourfold.proof import prove

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_memory.py"
SIZES = dict(hidden_size=12, num_heads=2, head_dim=4, value_dim=6, chunk_size=8)


class Prophet(GatedDeltaNet):
    """Sees what comes."""

    def process(self, x, state, cu_seqlens):
        y, state = super().process(x, state, cu_seqlens)
        return y + x.flip(1).cumsum(1).flip(1), state


class Amnesiac(GatedDeltaNet):
    """Starts empty at every call."""

    def process(self, x, state, cu_seqlens):
        return super().process(x, None, cu_seqlens)


class Mixer(GatedDeltaNet):
    """Reads packed sequences as one, and pads what it gives back."""

    def process(self, x, state, cu_seqlens):
        if cu_seqlens is None:
            return super().process(x, state, None)
        y, one = super().process(x, None, None)
        return y, one.select(torch.zeros(len(cu_seqlens) - 1, dtype=torch.long))


class Scribbler(GatedDeltaNet):
    """Writes into the state that it was given."""

    def process(self, x, state, cu_seqlens):
        y, after = super().process(x, state, cu_seqlens)
        if state is not None:
            state.memory.copy_(after.memory)
        return y, after


class Forgetter(GatedDeltaNet):
    """Gives no gradient to what it has read in earlier calls."""

    def process(self, x, state, cu_seqlens):
        y, state = super().process(x, state, cu_seqlens)
        return y, state.map(torch.Tensor.detach)


class Liar(GatedDeltaNet):
    """Its gradient is another than that of its output."""

    def process(self, x, state, cu_seqlens):
        y, state = super().process(x, state, cu_seqlens)
        return y.detach() + 1.01 * (y - y.detach()), state


class Starter(GatedDeltaNet):
    """Its empty state holds something."""

    def initial_state(self, sequences, *, dtype, device=None):
        state = super().initial_state(sequences, dtype=dtype, device=device)
        return replace(state, memory=state.memory + 1)


class Miser(GatedDeltaNet):
    """Learns nothing from packed sequences."""

    def process(self, x, state, cu_seqlens):
        with torch.set_grad_enabled(cu_seqlens is None and torch.is_grad_enabled()):
            return super().process(x, state, cu_seqlens)


class PackedScribbler(GatedDeltaNet):
    """Writes into the state that it was given if sequences are packed."""

    def process(self, x, state, cu_seqlens):
        y, after = super().process(x, state, cu_seqlens)
        if state is not None and cu_seqlens is not None:
            state.memory.detach().copy_(after.memory.detach())
        return y, after


class Sloth(GatedDeltaNet):
    """Forgets what it has read at the hundredth token of a call."""

    def process(self, x, state, cu_seqlens):
        if cu_seqlens is not None or x.shape[1] < 100:
            return super().process(x, state, cu_seqlens)
        y, _ = super().process(x[:, :100], state, None)
        further, state = super().process(x[:, 100:], None, None)
        return torch.cat([y, further], 1), state


class Frozen(GatedDeltaNet):
    """Trains a parameter that gets no gradient."""

    def process(self, x, state, cu_seqlens):
        y, state = super().process(x, state, cu_seqlens)
        return y * (1 + self.decay.dt_bias.detach().sum()), state


class Trickle(GatedDeltaNet):
    """Remembers next to nothing."""

    def process(self, x, state, cu_seqlens):
        y, state = super().process(x, state, cu_seqlens)
        return 1e-9 * y + x, state


class FirstRow(GatedDeltaNet):
    """Its state gives the first sequence whichever is asked for."""

    def process(self, x, state, cu_seqlens):
        y, state = super().process(x, state, cu_seqlens)
        return y, FirstRowState(state.memory, state.convolution)


@dataclass(frozen=True)
class FirstRowState(RecurrentState):
    def select(self, index):
        return super().select(torch.zeros_like(index))


class Whole(GatedDeltaNet):
    """Multiplies where it should add, so that empty is one and not zero."""

    def process(self, x, state, cu_seqlens):
        if state is not None:
            state = replace(state, memory=state.memory - 1)
        y, state = super().process(x, state, cu_seqlens)
        return y, replace(state, memory=state.memory + 1)

    def initial_state(self, sequences, *, dtype, device=None):
        state = super().initial_state(sequences, dtype=dtype, device=device)
        return replace(state, memory=state.memory + 1)


class Deaf(GatedDeltaNet):
    """A sound one: it normalises what it reads, and does not train one of its weights."""

    def __init__(self, **sizes):
        super().__init__(**sizes)
        self.before = torch.nn.LayerNorm(self.hidden_size)
        self.beta_proj.weight.requires_grad_(False)

    def process(self, x, state, cu_seqlens):
        return super().process(self.before(x), state, cu_seqlens)


class Breaker(GatedDeltaNet):
    """Cannot go on from a state."""

    def process(self, x, state, cu_seqlens):
        if state is not None:
            raise RuntimeError("no state, please")
        return super().process(x, state, cu_seqlens)


@pytest.mark.parametrize(
    ("layer", "missed"),
    [
        (Prophet, "a future token never changes a past output"),
        (Amnesiac, "token by token equals all at once"),
        (Amnesiac, "uneven pieces equal all at once"),
        (Mixer, "packed sequences equal each alone"),
        (Mixer, "padding is as if it were not there"),
        (Mixer, "a row of padding alone leaves its state"),
        (Scribbler, "a state is never changed by going on from it"),
        (Forgetter, "gradients flow through a carried state"),
        (Liar, "gradients of inputs are those of the outputs"),
        (Miser, "packed sequences equal each alone"),
        (PackedScribbler, "a state is never changed by going on from it"),
        (Sloth, "token by token equals all at once"),
        (Frozen, "gradients of parameters are those of the outputs"),
        (Trickle, "a past token changes later outputs"),
        (FirstRow, "rows can be selected and repeated"),
        (Whole, "a sequence that begins anew has read nothing"),
        (Starter, "the empty state equals none"),
        (Breaker, "rows can be selected and repeated"),
    ],
)
def test_a_fault_is_found_by_the_property_that_it_misses(layer, missed):
    findings = {finding.name: finding for finding in prove(layer(**SIZES))}
    assert missed in [name for name, finding in findings.items() if not finding.holds]
    if layer is Breaker:
        said = findings[missed].said
        assert said.startswith("RuntimeError: no state, please (test_prove.py, line ")


def test_a_sound_layer_misses_nothing_and_another_oracle_is_told_apart():
    layer = GatedDeltaNet(**SIZES)
    weights = {name: value.clone() for name, value in layer.state_dict().items()}
    assert [finding for finding in prove(layer) if not finding.holds] == []
    for name, value in layer.state_dict().items():
        assert torch.equal(value, weights[name]), "the layer itself was changed"
    assert [finding for finding in prove(Deaf(**SIZES)) if not finding.holds] == []
    *_, outputs, gradients = prove(layer, oracle=lambda layer, x: layer(x)[0])
    assert (outputs.holds, gradients.holds) == (True, True)
    *_, outputs, gradients = prove(layer, oracle=lambda layer, x: 1.0001 * layer(x)[0])
    assert (outputs.holds, gradients.holds) == (False, False)


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_the_examples_are_proved_on_the_command_line():
    result = run("--memory", EXAMPLE, "prove", "two_strengths", "head_dim=4", "expand_v=1.5")
    assert result.exit_code == 0, result.output
    for name in ("token by token equals all at once", "gradients equal the oracle's"):
        assert name in result.output
    assert "two_strengths holds all 20 properties" in result.output
    result = run("--memory", EXAMPLE.with_name("own_recurrence.py"), "prove", "fading_mean")
    assert result.exit_code == 0, result.output
    assert "fading_mean holds all 18 properties" in result.output


def test_a_memory_that_fails_is_named_with_what_it_raised():
    register_layer("breaker", lambda config: Breaker(**sizes_of(config)))
    try:
        result = run("prove", "breaker")
    finally:
        del LAYER_TYPES["breaker"]
    assert result.exit_code == 1
    assert "RuntimeError: no state, please" in result.output
    assert "It has no oracle" in result.output
    assert "breaker misses" in result.output
    assert "Did you mean 'atpm'" in run("prove", "atpn").output

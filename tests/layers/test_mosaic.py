"""What is particular to Memory Mosaics: looking ahead without seeing the future, two reaches."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from fourfold import FourfoldConfig, FourfoldForCausalLM
from fourfold.layers import LongShortAttention, Mosaic, MosaicV1

SIZES = dict(hidden_size=12, num_heads=2, head_dim=4)


def make(layer):
    torch.manual_seed(1)
    layer = layer.double().eval()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return layer


def tokens(count, rows=1):
    draw = torch.Generator().manual_seed(2)
    return torch.randn(rows, count, 12, generator=draw, dtype=torch.float64)


def by_the_equations(layer, x):
    """One sequence (T, hidden_size), token by token and pair by pair, as the paper writes it."""
    total = len(x)
    y = torch.zeros(total, layer.hidden_size, dtype=torch.float64)
    for memory in layer.memories.values():
        heads = []
        for h in range(memory.num_heads):
            own = slice(h * memory.head_dim, (h + 1) * memory.head_dim)
            w_key, w_value = memory.key_proj.weight[own], memory.value_proj.weight[own]
            gates = memory.gate_proj.weight[[h, memory.num_heads + h]]
            k, k_bar = [], torch.zeros(memory.head_dim, dtype=torch.float64)
            for t in range(total):
                g, decay = (gates[0] @ x[t]).exp(), (-(gates[1] @ x[t]).abs()).exp()
                k_bar = g * (w_key @ x[t]) + decay * k_bar
                k.append(k_bar / k_bar.norm())
            gamma = memory.mix[h]
            alpha = memory.scale[h].abs().clamp(max=15).exp()
            v = []
            for t in range(total - 1):
                v_bar = gamma * (w_value @ x[t]) + (1 - gamma) * (w_value @ x[t + 1])
                v.append(alpha * v_bar / v_bar.norm())
            beta0, beta1 = memory.beta0[h].exp(), memory.beta1[h].exp()
            exponent = memory.exponent[h].abs().clamp(max=1)
            rows = []
            for t in range(total):
                first = 0 if memory.window is None else max(0, t - memory.window + 1)
                pairs = range(first, t - memory.delay + 1)
                if not pairs:
                    rows.append(torch.zeros(memory.head_dim, dtype=torch.float64))
                    continue
                beta = beta1 * len(pairs) ** exponent + beta0
                weights = torch.stack([(beta * (k[t] @ k[i])).exp() for i in pairs])
                rows.append((weights / weights.sum()) @ torch.stack([v[i] for i in pairs]))
            heads.append(torch.stack(rows))
        y += torch.cat(heads, -1) @ memory.out_proj.weight.T
    return y


def test_the_layer_is_what_the_equations_say():
    layer = make(Mosaic(**SIZES, window=5, delay=3))
    x = tokens(17)
    with torch.no_grad():
        torch.testing.assert_close(layer(x)[0][0], by_the_equations(layer, x[0]), rtol=0, atol=1e-9)


@pytest.mark.parametrize("layer", [Mosaic(**SIZES, window=5, delay=3), MosaicV1(**SIZES)])
def test_values_look_ahead_and_nothing_sees_the_future(layer):
    layer, x = make(layer), tokens(20)
    with torch.no_grad():
        before = layer(x)[0][0]
        for changed in range(20):
            other = x.clone()
            other[0, changed] += 1.0
            after = layer(other)[0][0]
            differs = ((after - before).abs().amax(-1) > 1e-12).tolist()
            assert not any(differs[:changed])


def test_a_pair_holds_its_successor():
    # Only γ = 0 and keys that do not know of the change: what pair t gives is what stood at t + 1.
    layer, x = make(Mosaic(**SIZES, window=9, delay=3)), tokens(12)
    with torch.no_grad():
        for memory in layer.memories.values():
            memory.mix.zero_()
            memory.key_proj.weight.zero_()
            memory.gate_proj.weight.zero_()
            memory.key_proj.weight[:, 0] = 1.0
        other = x.clone()
        other[0, 5, 1:] += 1.0  # the keys, made of the first number, stay as they are
        differs = ((layer(other)[0] - layer(x)[0])[0].abs().amax(-1) > 1e-12).tolist()
    assert not differs[4]  # pair 4 holds it, and 4 cannot read pair 4
    assert differs[5]  # which waited for it: 5 reads pair 4
    assert differs[6]


@pytest.mark.parametrize("kind", [Mosaic, LongShortAttention])
def test_where_nothing_is_in_reach_nothing_is_read(kind):
    layer = make(kind(**SIZES, window=5, delay=8))
    layer.disabled = {"short"}
    x = tokens(20)
    with torch.no_grad():
        y = layer(x)[0][0]
        steps, state = [], None
        for t in range(20):
            step, state = layer(x[:, t : t + 1], state)
            steps.append(step[0])
    assert not y[:8].any()
    assert y[8:].abs().amax(-1).gt(0).all()
    torch.testing.assert_close(torch.cat(steps), y)


def long_memory(**options):
    return Mosaic(**SIZES, window=5, delay=4, training_delay=(2, 6), **options).memories["long"]


def test_delays_are_drawn_while_training_and_fixed_afterwards():
    step, each = long_memory(), long_memory(delay_draw="sequence")
    assert {step.delays(3) for _ in range(200)} == {2, 3, 4, 5, 6}
    assert len(each.delays(50)) == 50
    assert set(each.delays(500)) == {2, 3, 4, 5, 6}
    assert step.eval().delays(3) == each.eval().delays(3) == 4


def test_a_delay_a_sequence_reads_each_with_its_own():
    memory = make(long_memory(delay_draw="sequence"))
    x = tokens(15, rows=4)
    memory.train()
    torch.manual_seed(7)
    delays = memory.delays(4)
    assert len(set(delays)) > 1
    torch.manual_seed(7)
    with torch.no_grad():
        together = memory(x)[0]
        memory.eval()
        for row, memory.delay in enumerate(delays):
            torch.testing.assert_close(together[row : row + 1], memory(x[row : row + 1])[0])


def test_checkpointing_draws_the_same_delay_again():
    config = FourfoldConfig(
        hidden_size=16,
        num_attention_heads=1,
        layer_types=["mosaic"] * 3,
        mosaic_training_delay=[2, 9],
        vocab_size=32,
    )
    ids = torch.randint(32, (2, 24), generator=torch.Generator().manual_seed(0))
    gradients = []
    for checkpointing in (False, True):
        torch.manual_seed(0)
        model = FourfoldForCausalLM(config).train()
        if checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        torch.manual_seed(1)
        model(ids, labels=ids).loss.backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_a_memory_can_be_switched_off_and_on_and_goes_on_storing():
    config = FourfoldConfig(
        hidden_size=16, num_attention_heads=2, layer_types=["mosaic", "atpm"], mosaic_delay=3
    )
    model = FourfoldForCausalLM(config).eval()
    ids = torch.randint(256, (1, 30), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        whole, cache = model(ids).logits, model.new_cache()
        model.disable("long")
        assert not torch.allclose(model(ids[:, :20], cache=cache).logits, whole[:, :20])
        model.disable()
        rest = model(ids[:, 20:], cache=cache).logits
        torch.testing.assert_close(model(ids).logits, whole)
    stored = cache.named_tensors()["layers.0.long.keys"]
    assert stored.shape[1] == 29
    assert rest.isfinite().all()
    with pytest.raises(ValueError, match="which are long, short; got 'lang'"):
        model.disable("lang")
    other = FourfoldForCausalLM(FourfoldConfig(layer_types=["atpm"]))
    with pytest.raises(ValueError, match="none in this model"):
        other.disable("long")


def test_the_start_is_that_of_the_paper():
    layer = Mosaic(**SIZES)
    for memory in layer.memories.values():
        assert memory.beta0.tolist() == memory.beta1.tolist() == [1.5, 1.5]
        assert memory.exponent.tolist() == pytest.approx([1 / 3] * 2)
        assert all(0 <= value < 1 for value in memory.mix.tolist())
        assert all(abs(value) < 0.02 for value in memory.scale.tolist())


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"mosaic_window": 0}, "mosaic_window must be an integer from 1; got 0"),
        ({"mosaic_delay": 0}, "mosaic_delay must be an integer from 1; got 0"),
        ({"mosaic_training_delay": [9, 3]}, "mosaic_training_delay must be the least"),
        ({"mosaic_training_delay": []}, "mosaic_training_delay must be the least"),
        ({"mosaic_delay_draw": "token"}, "mosaic_delay_draw must be one of step, sequence"),
    ],
)
def test_reaches_that_cannot_be_are_refused_with_a_sentence(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        FourfoldConfig(layer_types=["mosaic"], **changes)


def test_half_precision_stays_close():
    layer = make(Mosaic(**SIZES, window=5, delay=3))
    x = tokens(40, rows=2)
    with torch.no_grad():
        exact = layer(x)[0]
        rough = layer.bfloat16()(x.bfloat16())[0]
    assert rough.dtype == torch.bfloat16
    assert (rough.double() - exact).norm() < 0.1 * exact.norm()
    assert not math.isnan(F.mse_loss(rough.float(), exact.float()).item())

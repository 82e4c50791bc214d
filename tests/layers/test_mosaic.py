"""What is particular to Memory Mosaics: looking ahead without seeing the future, two reaches."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from fourfold import FourfoldConfig, FourfoldForCausalLM
from fourfold.benchmarks.memory import peak_bytes
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


def by_the_equations(memories, x):
    """One sequence (T, hidden_size), token by token and pair by pair, as the papers write it."""
    total = len(x)
    y = torch.zeros_like(x)
    for memory in memories:
        adaptive, gated = memory.beta1 is not None, memory.gate_proj is not None
        heads = []
        for h in range(memory.num_heads):
            own = slice(h * memory.head_dim, (h + 1) * memory.head_dim)
            w_key, w_value = memory.key_proj.weight[own], memory.value_proj.weight[own]
            if gated:
                count = len(memory.gate_proj.weight) // 2  # as many as heads, or one
                gates = memory.gate_proj.weight[[h % count, count + h % count]]
            k, k_bar = [], torch.zeros(memory.head_dim, dtype=torch.float64)
            for t in range(total):
                g, decay = 1.0, (-memory.decay[h].abs()).exp() if not gated else None
                if gated:
                    g, decay = (gates[0] @ x[t]).exp(), (-(gates[1] @ x[t]).abs()).exp()
                k_bar = g * (w_key @ x[t]) + decay * k_bar
                k.append(k_bar / k_bar.norm())
            gamma = memory.mix[h]
            theta = memory.scale[h].item()
            alpha = math.exp(min(abs(theta), 15) if adaptive else theta)
            v = []
            for t in range(total - 1):
                v_bar = gamma * (w_value @ x[t]) + (1 - gamma) * (w_value @ x[t + 1])
                v.append(alpha * v_bar / v_bar.norm())
            beta0, beta1, exponent = math.exp(min(memory.beta0[h].item(), 10)), 0.0, 0.0
            if adaptive:
                beta1 = math.exp(min(memory.beta1[h].item(), 10))
                exponent = min(abs(memory.exponent[h].item()), 1.0)
            rows = []
            for t in range(total):
                first = 0 if memory.window is None else max(0, t - memory.window + 1)
                pairs = range(first, t - memory.delay + 1)
                if not pairs:
                    rows.append(torch.zeros(memory.head_dim, dtype=torch.float64))
                    continue
                beta = beta1 * len(pairs) ** exponent + beta0
                weights = torch.stack([beta * (k[t] @ k[i]) for i in pairs]).softmax(0)
                rows.append(weights @ torch.stack([v[i] for i in pairs]))
            heads.append(torch.stack(rows))
        y += torch.cat(heads, -1) @ memory.out_proj.weight.T
    return y


MEMORIES = {
    "v2": lambda: Mosaic(**SIZES, window=5, delay=3),
    "v2, shared gates": lambda: Mosaic(**SIZES, window=5, delay=3, shared_gates=True),
    "v1": lambda: MosaicV1(**SIZES),
}
memories = pytest.mark.parametrize("make_layer", MEMORIES.values(), ids=MEMORIES)


def memories_of(layer):
    return list(layer.memories.values()) if isinstance(layer, Mosaic) else [layer]


@memories
def test_the_layer_is_what_the_equations_say(make_layer):
    layer, x = make(make_layer()), tokens(17)
    with torch.no_grad():
        wanted = by_the_equations(memories_of(layer), x[0])
        torch.testing.assert_close(layer(x)[0][0], wanted, rtol=0, atol=1e-9)


@memories
def test_parameters_beyond_their_bounds_count_as_the_bounds(make_layer):
    layer, x = make(make_layer()), tokens(9)
    bounded = {"beta0": 11.0, "beta1": 12.0, "exponent": -1.5, "scale": -16.0}
    with torch.no_grad():
        for memory in memories_of(layer):
            for name, value in bounded.items():
                if getattr(memory, name) is not None:
                    getattr(memory, name)[0] = value
        wanted = by_the_equations(memories_of(layer), x[0])
        torch.testing.assert_close(layer(x)[0][0], wanted, rtol=1e-7, atol=1e-9)


def attention_by_the_equations(attention, x):
    """One sequence, query by query: rotary positions, then softmax over what is in reach."""
    half = attention.head_dim // 2
    frequencies = attention.rope_theta ** (-torch.arange(half, dtype=torch.float64) / half)

    def turned(vector, t):
        a, b = vector[:half], vector[half:]
        cos, sin = (t * frequencies).cos(), (t * frequencies).sin()
        return torch.cat([a * cos - b * sin, b * cos + a * sin])

    outputs = torch.zeros(len(x), attention.num_heads * attention.head_dim, dtype=torch.float64)
    for h in range(attention.num_heads):
        own = slice(h * attention.head_dim, (h + 1) * attention.head_dim)
        q, k, v = (
            x @ proj.weight[own].T
            for proj in (attention.q_proj, attention.k_proj, attention.v_proj)
        )
        for t in range(len(x)):
            window = attention.sliding_window
            seen = range(0 if window is None else max(0, t - window + 1), t - attention.delay + 1)
            if seen:
                scores = [turned(q[t], t) @ turned(k[i], i) / math.sqrt(2 * half) for i in seen]
                outputs[t, own] = torch.stack(scores).softmax(0) @ v[list(seen)]
    return outputs @ attention.out_proj.weight.T


def test_the_control_is_attention_to_the_last_h_tokens_and_to_those_m_away():
    layer, x = make(LongShortAttention(**SIZES, window=5, delay=3)), tokens(17)
    short, long = layer.memories["short"], layer.memories["long"]
    assert (short.sliding_window, short.delay, long.sliding_window, long.delay) == (5, 0, None, 3)
    with torch.no_grad():
        wanted = sum(attention_by_the_equations(part, x[0]) for part in (short, long))
        torch.testing.assert_close(layer(x)[0][0], wanted, rtol=0, atol=1e-9)


@memories
def test_nothing_sees_the_future(make_layer):
    layer, x = make(make_layer()), tokens(20)
    with torch.no_grad():
        before = layer(x)[0][0]
        for changed in range(20):
            other = x.clone()
            other[0, changed] += 1.0
            after = layer(other)[0][0]
            assert torch.equal(after[:changed], before[:changed])
            assert not torch.equal(after[changed:], before[changed:])


@memories
def test_a_pair_holds_its_successor(make_layer):
    # Only γ = 0 and keys that do not know of the change: what pair t gives is what stood at t + 1.
    layer, x = make(make_layer()), tokens(12)
    with torch.no_grad():
        for memory in memories_of(layer):
            memory.mix.zero_()
            memory.key_proj.weight.zero_()
            if memory.gate_proj is not None:
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


divided = pytest.mark.parametrize("kind", [Mosaic, LongShortAttention])


def long_memory(kind, **options):
    return kind(**SIZES, window=5, delay=4, training_delay=(2, 6), **options).memories["long"]


@divided
def test_delays_are_drawn_while_training_and_fixed_afterwards(kind):
    call, each = long_memory(kind), long_memory(kind, delay_draw="sequence")
    assert {call.delays(3) for _ in range(200)} == {2, 3, 4, 5, 6}
    assert len(each.delays(50)) == 50
    assert set(each.delays(500)) == {2, 3, 4, 5, 6}
    assert call.eval().delays(3) == each.eval().delays(3) == 4


@divided
@pytest.mark.parametrize("draw", ["call", "sequence"])
def test_each_sequence_is_read_with_the_delay_that_was_drawn_also_packed(kind, draw):
    memory = make(long_memory(kind, delay_draw=draw))
    lengths = (15, 2, 15, 6)
    x = tokens(15, rows=4)
    packed = torch.cat([row[:length] for row, length in zip(x, lengths, strict=True)])[None]
    offsets = torch.tensor([0, 15, 17, 32, 38])
    memory.train()
    torch.manual_seed(7)
    drawn = memory.delays(4)
    delays = [drawn] * 4 if draw == "call" else drawn
    assert draw == "call" or len(set(delays)) > 1
    with torch.no_grad():
        torch.manual_seed(7)
        together = memory(x)[0]
        torch.manual_seed(7)
        pieces = memory(packed, cu_seqlens=offsets)[0][0].split(lengths)
        memory.eval()
        for row, memory.delay in enumerate(delays):
            alone = memory(x[row : row + 1])[0][0]
            torch.testing.assert_close(together[row], alone)
            torch.testing.assert_close(pieces[row], alone[: lengths[row]])


@divided
def test_what_is_too_near_for_the_long_reach_is_within_the_short_one_unless_told_otherwise(kind):
    published, small = kind(**SIZES), kind(**SIZES, window=16, delay=4)
    assert published.memories["long"].training_delay == (64, 256)
    assert small.memories["long"].training_delay == (4, 16)
    wide = kind(**SIZES, window=5, delay=8)
    assert wide.memories["long"].training_delay == (8, 8)


@divided
def test_one_long_sequence_among_many_short_ones_does_not_lengthen_all(kind):
    layer = kind(**SIZES, window=16, delay=8)
    lengths = [2000, *[1] * 50]
    x = torch.randn(1, sum(lengths), 12)
    offsets = torch.tensor([0, *lengths]).cumsum(0)
    alone = peak_bytes(lambda: layer(x[:, :2000]), "cpu")
    # The state of so many holds that many times the slots of the longest.
    state = layer(x, cu_seqlens=offsets)[1].nbytes
    assert peak_bytes(lambda: layer(x, cu_seqlens=offsets), "cpu") < 3 * alone + 3 * state


def test_a_long_piece_behind_a_state_fits_in_memory():
    layer = Mosaic(**SIZES, window=256, delay=64).eval()
    x = torch.randn(1, 8193, 12)
    with torch.no_grad():
        whole, state = layer(x)[0], layer(x[:, :1])[1]
        assert peak_bytes(lambda: layer(x[:, 1:], state), "cpu") < 64 * 2**20  # all scores: 512 MiB
        torch.testing.assert_close(layer(x[:, 1:], state)[0], whole[:, 1:], rtol=1e-4, atol=1e-4)


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
        ({"mosaic_delay_draw": "token"}, "mosaic_delay_draw must be one of call, sequence"),
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

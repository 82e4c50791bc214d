"""What a plan says of a model is what the model does."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode
from typer.testing import CliRunner
from zoo import KINDS, build

from fourfold.cli import app
from fourfold.evaluation import state_bytes
from fourfold.layers import AssociativeMemory, Attention
from fourfold.layers.delta_family import DeltaFamilyLayer
from fourfold.ops import without_kernels
from fourfold.ops.sequential import sequential_delta_rule
from fourfold.planning import make_plan
from fourfold.planning.flops import forward_flops, mean_seen, training_flops
from fourfold.planning.memory import carried, training_bytes
from fourfold.planning.parameters import parameters_by_part, without_memory
from fourfold.training.loop import FitOptions, make_optimizer
from fourfold.training.recipe import read_recipe

RECIPES = Path(__file__).parents[2] / "recipes"
LLAMA_3 = 128_256

RECIPE = """
model: {layer: atpm, layers: 2, fields: {hidden_size: 16, num_attention_heads: 2}}
data: {train: text.txt}
training: {tokens: 1_000_000, batch_size: 2, sequence_length: 16}
"""


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text(RECIPE)
    return path


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


class Products(TorchDispatchMode):
    """Counts multiplications and additions in products, and in what has the shape of a state."""

    def __init__(self, state):
        self.state, self.count = state, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **kwargs or {})
        name = function.overloadpacket.__name__
        if name == "bmm":
            self.count += 2 * result.numel() * args[0].shape[-1]
        elif name in ("mul", "add") and result.numel() == self.state.numel():
            self.count += result.numel()
        return result


def test_the_recurrence_takes_seven_operations_for_each_number_of_the_state():
    B, T, H, S, D = 1, 5, 3, 4, 6
    q, s, d = (torch.randn(B, T, H, S, dtype=torch.float64) for _ in range(3))
    e = torch.randn(B, T, H, D, dtype=torch.float64)
    strength = torch.rand(B, T, H, 1, dtype=torch.float64)
    state = torch.randn(B, H, S, D, dtype=torch.float64)
    with Products(state) as products:
        sequential_delta_rule(
            q=q,
            s=s,
            d=d,
            e=e,
            log_alpha=-strength[..., 0],
            erase=strength,
            write=strength,
            state=state,
            lengths=None,
        )
    assert products.count == 7 * H * S * D * T


@pytest.mark.filterwarnings("ignore:TF32 acceleration")
@pytest.mark.parametrize("kind", KINDS)
def test_the_formula_counts_what_torch_counts(kind):
    """Token by token, so that attention sees what is there and nothing it must not."""
    model, tokens = build(kind), 9
    plain = sdpa_kernel(SDPBackend.MATH), torch.backends.mkldnn.flags(enabled=False)
    with (
        torch.no_grad(),
        without_kernels(),
        plain[0],
        plain[1],
        FlopCounterMode(display=False) as f,
    ):
        cache = model.new_cache()
        for _ in range(tokens):
            model(torch.zeros(1, 1, dtype=torch.long), cache=cache)
    # torch sees two of the recurrence's products, and the convolution as neither.
    unseen = 0
    for memory in model.memories():
        if isinstance(memory, DeltaFamilyLayer):
            unseen += 3 * memory.num_heads * memory.address_dim * memory.columns
            unseen += 2 * memory.convolution.weight.numel()
        for part in memory.modules():
            # A step also looks at what is stored and not in reach yet.
            if isinstance(part, AssociativeMemory):
                size = part.num_heads * part.head_dim
                early = [min(t - 1, part.delay - 1) for t in range(1, tokens + 1)]
                unseen += 3 * size - 4 * size * sum(early) / tokens
            if isinstance(part, Attention):
                early = [min(t, part.delay) for t in range(1, tokens + 1)]
                unseen -= 4 * part.num_heads * part.head_dim * sum(early) / tokens
    counted = sum(forward_flops(model, tokens).values())
    assert math.isclose(counted, f.get_total_flops() / tokens + unseen)


def test_a_window_bounds_what_attention_sees():
    seen = [min(position, 6) for position in range(1, 21)]
    assert math.isclose(mean_seen(20, 6), sum(seen) / 20)
    assert mean_seen(20, None) == 10.5
    assert mean_seen(4, 6) == 2.5


def test_training_takes_three_passes_and_with_checkpointing_the_layers_once_more():
    parts = forward_flops(build("atpm"), 16)
    total = sum(parts.values())
    assert training_flops(parts, checkpointing=False) == 3 * total
    assert training_flops(parts, checkpointing=True) == 4 * total - parts["output"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_sequences_memory_is_known_without_reading(kind):
    model = build(kind)
    size = carried(without_memory(model.config))
    for tokens in (1, 4, 5, 6, 17):
        assert size.after(tokens) == state_bytes(model, tokens)


@pytest.mark.parametrize("tied", [True, False])
def test_every_parameter_belongs_to_one_part(tied):
    model = build("hybrid of all", tie_word_embeddings=tied)
    parts = parameters_by_part(without_memory(model.config))
    assert sum(parts.values()) == model.num_parameters()
    assert parts["embedding"] == 64 * 16
    assert parts["output"] == (0 if tied else 64 * 16)
    assert parts["feed-forward"] == 6 * 3 * 16 * 24
    assert parts["norms"] == 16 * (2 * 6 + 1)


def test_the_bytes_that_training_keeps_are_those_of_weights_gradients_and_adamw():
    model = build("atpm")
    optimizer = make_optimizer(model, FitOptions())
    model(
        torch.zeros(1, 8, dtype=torch.long), labels=torch.zeros(1, 8, dtype=torch.long)
    ).loss.backward()
    optimizer.step()
    kept = training_bytes(without_memory(model.config))
    parameters = list(model.parameters())
    assert kept["weights"] == sum(x.nbytes for x in parameters)
    assert kept["gradients"] == sum(x.grad.nbytes for x in parameters)
    assert kept["AdamW"] == sum(x.nbytes for own in optimizer.state.values() for x in own.values())


def test_a_plan_says_parameters_memory_operations_and_time(recipe):
    result = invoke("plan", recipe, "--tokens-per-second", 1000, "--device", "a GPU")
    assert result.exit_code == 0, result.output
    model = build("atpm", vocab_size=259, intermediate_size=48)
    assert f"{model.num_parameters():,}" in result.output
    assert "output (is the embedding)" in result.output
    assert f"{state_bytes(model, 1):,} bytes, however long it is" in result.output
    assert "At 1,000 tokens a second on a GPU" in result.output
    assert "take 16.7 minutes" in result.output


def test_a_change_and_a_budget_change_the_plan(recipe):
    result = invoke("plan", recipe, "model.layer=attention", "--tokens", 500, "--context", 7)
    assert result.exit_code == 0, result.output
    assert "2 × attention" in result.output
    assert "0 bytes, and 272 for each token: 4,352 after 16" in result.output
    assert "mean over 7 tokens" in result.output
    assert "for 500 tokens" in result.output


def test_measuring_trains_here(recipe):
    result = invoke("plan", recipe, "training.accumulation=2", "--measure")
    assert result.exit_code == 0, result.output
    assert "A forward and backward pass over 32 tokens takes" in result.output
    assert "thread" in result.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--device", "x"], "--device x needs --tokens-per-second"),
        (["--measure", "--tokens-per-second", 5], "--measure says speed and device itself"),
        (["--tokens-per-second", 0], "must be above 0; got 0"),
        (["model.layers=none"], "model.layers"),
    ],
)
def test_what_a_plan_cannot_be_made_of_is_a_sentence(recipe, arguments, words):
    result = invoke("plan", recipe, *arguments)
    assert result.exit_code == 1
    assert words in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("layer", "parameters", "flops"),
    [("mosaic", 9.9e9, 18.9e9), ("attention", 8.8e9, 16.7e9)],
)
def test_the_large_memory_mosaic_and_its_rival_are_of_the_published_size(layer, parameters, flops):
    """Seed 003, section 3.1: billions of parameters, and of FLOPs a token at a length of 256."""
    recipe = read_recipe(RECIPES / "mosaic-large.yaml", (f"model.layer={layer}",))
    plan = make_plan(recipe, LLAMA_3, context=256)
    total = sum(plan.parameters.values())
    assert total == pytest.approx(parameters, rel=0.005)
    if layer == "mosaic":  # and of what is left when the long memory is switched off
        assert total - plan.parameters["memory, mosaic, long"] == pytest.approx(8.3e9, rel=0.005)
    assert sum(plan.forward_flops.values()) == pytest.approx(flops, rel=0.003)


def test_the_small_memory_mosaic_has_the_published_shape():
    recipe = read_recipe(RECIPES / "mosaic-small.yaml")
    config = recipe.model.configuration(LLAMA_3)
    assert (config.num_hidden_layers, config.hidden_size) == (24, 2048)
    assert (config.num_attention_heads, config.intermediate_size) == (16, 6144)
    assert sum(make_plan(recipe, LLAMA_3).parameters.values()) == 2_038_535_936


def test_a_plan_needs_no_tokenizer_if_told_its_size():
    arguments = ("plan", str(RECIPES / "mosaic-large.yaml"), "--vocabulary", str(LLAMA_3))
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert "9,926,096,896" in done.output
    assert "memory, mosaic, long" in done.output
    refused = CliRunner().invoke(app, [*arguments, "--measure"])
    assert refused.exit_code == 1
    assert "needs the tokenizer itself" in refused.output


def test_a_tokenizer_that_is_not_at_hand_can_be_done_without(recipe):
    absent = ("plan", recipe, "tokenizer=./not/here")
    refused = invoke(*absent)
    assert refused.exit_code == 1
    assert "./not/here" in refused.stderr
    assert "--vocabulary" in refused.stderr
    assert "--vocabulary" not in invoke(*absent, "--measure").stderr
    assert invoke(*absent, "--vocabulary", 300).exit_code == 0

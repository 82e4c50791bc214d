"""The language model, for every memory and two hybrids."""

from __future__ import annotations

import copy
from itertools import pairwise

import pytest
import torch
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, TextIteratorStreamer
from zoo import KINDS, build, random_tokens

from fourfold import ByteTokenizer, FourfoldConfig, FourfoldForCausalLM, FourfoldModel
from fourfold.models.compatibility import CACHE_NAME

TOLERANCE = dict(rtol=0, atol=1e-5)


@pytest.fixture(params=KINDS)
def model(request):
    return build(request.param)


def left_padded(rows):
    longest = max(len(row) for row in rows)
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for index, row in enumerate(rows):
        ids[index, longest - len(row) :] = row
        mask[index, longest - len(row) :] = 1
    return ids, mask


@torch.no_grad()
def test_prefill_equals_token_by_token_and_uneven_pieces(model):
    ids = random_tokens(2, 29)
    whole = model(ids, use_cache=False).logits
    for cuts in ([*range(30)], [0, 1, 9, 9, 24, 29]):
        cache = model.new_cache()
        pieces = [model(ids[:, start:end], cache=cache).logits for start, end in pairwise(cuts)]
        torch.testing.assert_close(torch.cat(pieces, 1), whole, **TOLERANCE)
        assert cache.tokens_seen == 29


@torch.no_grad()
def test_left_padded_batch_equals_each_row_alone(model):
    rows = [random_tokens(1, n)[0] for n in (3, 17, 11)]
    ids, mask = left_padded(rows)
    logits = model(ids, attention_mask=mask).logits
    for index, row in enumerate(rows):
        alone = model(row[None]).logits[0]
        torch.testing.assert_close(logits[index, -len(row) :], alone, **TOLERANCE)


@torch.no_grad()
def test_padded_prompt_fed_token_by_token_equals_each_row_alone(model):
    # A single masked column is padding too, not a step.
    rows = [random_tokens(1, n)[0] for n in (3, 9)]
    ids, mask = left_padded(rows)
    cache = model.new_cache()
    for t in range(9):
        logits = model(ids[:, t : t + 1], attention_mask=mask[:, : t + 1], cache=cache).logits
    for index, row in enumerate(rows):
        torch.testing.assert_close(logits[index, -1], model(row[None]).logits[0, -1], **TOLERANCE)


@torch.no_grad()
def test_the_content_of_padding_never_changes_a_logit(model):
    ids, mask = left_padded([random_tokens(1, n)[0] for n in (4, 12)])
    other = ids.masked_fill(mask == 0, 33)
    assert torch.equal(
        model(ids, attention_mask=mask).logits, model(other, attention_mask=mask).logits
    )


@torch.no_grad()
def test_a_future_token_never_changes_a_past_logit(model):
    ids = random_tokens(1, 30)
    changed = ids.clone()
    changed[:, 20:] = (changed[:, 20:] + 7) % 64
    logits, others = model(ids).logits, model(changed).logits
    torch.testing.assert_close(logits[:, :20], others[:, :20], rtol=0, atol=1e-6)
    assert not torch.allclose(logits[:, 20:], others[:, 20:], atol=1e-2)


@torch.no_grad()
def test_packed_sequences_equal_each_alone(model):
    ids = random_tokens(1, 20)
    offsets = torch.tensor([0, 7, 7, 8, 20])
    logits = model(ids, cu_seqlens=offsets).logits
    for start, end in ((0, 7), (7, 8), (8, 20)):
        torch.testing.assert_close(
            logits[:, start:end], model(ids[:, start:end]).logits, **TOLERANCE
        )


def test_packed_loss_does_not_predict_across_boundaries(model):
    ids = random_tokens(1, 12)
    offsets = torch.tensor([0, 5, 12])
    packed = model(ids, labels=ids, cu_seqlens=offsets).loss
    losses = [
        model(part, labels=part).loss * (part.shape[1] - 1) for part in (ids[:, :5], ids[:, 5:])
    ]
    torch.testing.assert_close(packed, sum(losses) / 10, **TOLERANCE)


@torch.no_grad()
def test_greedy_generation_equals_reading_everything_again(model):
    ids = random_tokens(2, 9)
    generated = model.generate(ids, max_new_tokens=12, do_sample=False)
    assert torch.equal(
        generated, model.generate(ids, max_new_tokens=12, do_sample=False, use_cache=False)
    )
    again = ids
    for _ in range(12):
        again = torch.cat([again, model(again).logits[:, -1:].argmax(-1)], 1)
    assert torch.equal(generated, again)


@torch.no_grad()
def test_generation_from_a_left_padded_batch_equals_each_row_alone(model):
    rows = [random_tokens(1, n)[0] for n in (3, 10)]
    ids, mask = left_padded(rows)
    together = model.generate(ids, attention_mask=mask, max_new_tokens=8, do_sample=False)
    for index, row in enumerate(rows):
        alone = model.generate(row[None], max_new_tokens=8, do_sample=False)
        assert torch.equal(together[index, -8:], alone[0, -8:])


@torch.no_grad()
def test_beam_search_with_a_cache_equals_beam_search_without(model):
    ids, mask = left_padded([random_tokens(1, n)[0] for n in (4, 7)])
    options = dict(
        attention_mask=mask, max_new_tokens=8, num_beams=4, num_return_sequences=2, do_sample=False
    )
    cached = model.generate(ids, **options)
    assert torch.equal(cached, model.generate(ids, use_cache=False, **options))


@torch.no_grad()
def test_reordering_the_cache_reorders_its_rows(model):
    ids = random_tokens(3, 8)
    cache = model.new_cache()
    model(ids, cache=cache)
    cache.reorder_cache(torch.tensor([2, 2, 0]))
    step = random_tokens(3, 1)
    logits = model(step, cache=cache).logits
    expected = model(torch.cat([ids[[2, 2, 0]], step], 1)).logits[:, -1:]
    torch.testing.assert_close(logits, expected, **TOLERANCE)


@torch.no_grad()
def test_two_generations_from_one_cached_prompt_do_not_disturb_each_other(model):
    prompt = random_tokens(1, 10)
    cache = model.new_cache()
    model(prompt[:, :-1], cache=cache)
    options = dict(max_new_tokens=6, do_sample=False)
    expected = model.generate(prompt, **options)
    for given in (cache, cache, cache.fork(), copy.deepcopy(cache)):
        assert torch.equal(model.generate(prompt, **{CACHE_NAME: given}, **options), expected)
    assert cache.tokens_seen == 9
    first, second = cache.fork(), cache.fork()
    model(random_tokens(1, 5), cache=first)
    torch.testing.assert_close(
        model(prompt[:, -1:], cache=second).logits[:, -1], model(prompt).logits[:, -1], **TOLERANCE
    )


@pytest.mark.parametrize("options", [dict(num_beams=3), dict(num_return_sequences=3)])
@torch.no_grad()
def test_a_cached_prompt_serves_beams_and_several_answers(model, options):
    prompt = random_tokens(2, 10)
    cache = model.new_cache()
    model(prompt[:, :6], cache=cache)
    options = dict(max_new_tokens=6, do_sample="num_beams" not in options) | options

    def answer(**given):
        torch.manual_seed(0)
        return model.generate(prompt, **given, **options)

    assert torch.equal(answer(**{CACHE_NAME: cache}), answer())
    assert cache.batch_size == 2


@torch.no_grad()
def test_new_tokens_alone_can_follow_a_cached_prompt_with_a_mask_over_both():
    model, prompt = build("hybrid of all"), random_tokens(1, 10)
    cache = model.new_cache()
    model(prompt[:, :7], cache=cache)
    options = dict(max_new_tokens=6, do_sample=False)
    answer = model.generate(
        prompt[:, 7:], attention_mask=torch.ones(1, 10), **{CACHE_NAME: cache}, **options
    )
    assert torch.equal(answer[:, 3:], model.generate(prompt, **options)[:, 10:])


@torch.no_grad()
def test_a_cached_prompt_without_a_new_token_is_refused():
    model, prompt = build("atpm"), random_tokens(1, 7)
    cache = model.new_cache()
    model(prompt, cache=cache)
    for short in (prompt, prompt[:, :4]):
        with pytest.raises(ValueError, match="has seen 7 tokens, and the prompt holds only"):
            model.generate(short, max_new_tokens=3, **{CACHE_NAME: cache})
    with pytest.raises(ValueError, match="use_cache=False asks to go without one"):
        model.generate(random_tokens(1, 9), use_cache=False, **{CACHE_NAME: cache})


@torch.no_grad()
def test_sampling_is_decided_by_the_seed(model):
    ids = random_tokens(2, 5)

    def draw(seed):
        torch.manual_seed(seed)
        return model.generate(ids, max_new_tokens=10, do_sample=True, temperature=1.5, top_k=20)

    assert torch.equal(draw(1), draw(1))
    assert not torch.equal(draw(1), draw(2))


@torch.no_grad()
def test_prefill_in_chunks_by_transformers_changes_nothing(model):
    ids, mask = left_padded([random_tokens(1, n)[0] for n in (9, 14)])
    options = dict(attention_mask=mask, max_new_tokens=5, do_sample=False)
    assert torch.equal(
        model.generate(ids, prefill_chunk_size=4, **options), model.generate(ids, **options)
    )


@torch.no_grad()
def test_saving_and_loading_reproduces_logits_bitwise(model, tmp_path):
    model.save_pretrained(tmp_path)
    ids = random_tokens(2, 20)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert isinstance(loaded, FourfoldForCausalLM)
    assert torch.equal(loaded(ids).logits, model(ids).logits)
    assert isinstance(AutoModel.from_pretrained(tmp_path), FourfoldModel)
    assert AutoConfig.from_pretrained(tmp_path).layer_types == model.config.layer_types
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".safetensors"}


def test_gradient_checkpointing_gives_the_same_gradients(model):
    ids = random_tokens(2, 20)
    model.train()

    def gradients():
        model.zero_grad()
        model(ids, labels=ids).loss.backward()
        return [parameter.grad.clone() for parameter in model.parameters()]

    plain = gradients()
    model.gradient_checkpointing_enable()
    for expected, gradient in zip(plain, gradients(), strict=True):
        torch.testing.assert_close(gradient, expected)


@pytest.mark.parametrize("reentrant", (False, True))
def test_checkpointing_never_loses_the_gradient_of_a_carried_state(reentrant):
    model, ids = build("atpm").train(), random_tokens(1, 24)

    def gradient():
        model.zero_grad()
        cache = model.new_cache()
        model(ids[:, :12], cache=cache)
        model(ids[:, 12:], labels=ids[:, 12:], cache=cache).loss.backward()
        return model.model.embed_tokens.weight.grad.clone()

    expected = gradient()
    model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    if reentrant:
        with pytest.raises(ValueError, match="Reentrant gradient checkpointing loses the gradient"):
            gradient()
    else:
        torch.testing.assert_close(gradient(), expected)


def test_accumulated_gradients_are_divided_by_the_number_that_the_trainer_gives():
    model, ids = build("atpm"), random_tokens(2, 9)
    loss = model(ids, labels=ids).loss
    torch.testing.assert_close(model(ids, labels=ids, num_items_in_batch=64).loss, loss * 16 / 64)
    assert model.accepts_loss_kwargs


def test_arguments_that_it_does_not_know_are_not_swallowed():
    model, ids = build("atpm"), random_tokens(1, 9)
    for unknown in ("position_ids", "atention_mask", "cu_seq_lens_q"):
        with pytest.raises(TypeError, match=unknown):
            model(ids, **{unknown: ids})


def test_every_parameter_takes_part_in_training(model):
    ids = random_tokens(2, 20)
    model(ids, labels=ids).loss.backward()
    unused = [
        name
        for name, parameter in model.named_parameters()
        if parameter.grad is None or not parameter.grad.abs().max() > 0
    ]
    assert unused == []


@torch.no_grad()
def test_bfloat16_model_generates_and_stays_close(model):
    ids = random_tokens(2, 20)
    exact = model(ids).logits
    rough = model.bfloat16()(ids).logits
    assert rough.dtype == torch.bfloat16
    assert (rough.float() - exact).norm() < 0.1 * exact.norm()
    assert model.generate(ids, max_new_tokens=3, do_sample=False).shape == (2, 23)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "hybrid of all"])
@torch.no_grad()
def test_compiled_forward_without_graph_breaks_equals_eager(kind):
    torch._dynamo.reset()
    model = build(kind)
    ids = random_tokens(2, 20)
    # torch cannot trace its own LSTM, so there the graph breaks.
    whole = "lstm" not in model.config.layer_types
    compiled = torch.compile(model, backend="aot_eager", fullgraph=whole)
    torch.testing.assert_close(
        compiled(ids, use_cache=False).logits, model(ids, use_cache=False).logits, **TOLERANCE
    )


@torch.no_grad()
def test_compiled_by_inductor_equals_eager():
    torch._dynamo.reset()
    model, ids = build("atpm", layer_types=["atpm"]), random_tokens(2, 8)
    compiled = torch.compile(model)
    torch.testing.assert_close(
        compiled(ids, use_cache=False).logits, model(ids, use_cache=False).logits, **TOLERANCE
    )


@torch.no_grad()
def test_compiled_steps_on_a_warm_memory_equal_eager():
    torch._dynamo.reset()
    model, ids = build("atpm"), random_tokens(2, 12)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    cache, other = model.new_cache(), model.new_cache()
    model(ids[:, :8], cache=cache)
    model(ids[:, :8], cache=other)
    for t in range(8, 12):
        step = ids[:, t : t + 1]
        torch.testing.assert_close(
            compiled(step, cache=cache).logits, model(step, cache=other).logits, **TOLERANCE
        )


@pytest.mark.parametrize("shape", [(2, 20), (2, 128)])
@pytest.mark.parametrize("layer_type", ["atpm", "gated_deltanet"])
def test_compiled_training_step_equals_eager(layer_type, shape):
    torch._dynamo.reset()
    model = build("atpm", layer_types=[layer_type], chunk_size=64).train()
    ids = random_tokens(*shape)

    def gradients(call):
        model.zero_grad()
        call(ids, labels=ids).loss.backward()
        return [parameter.grad.clone() for parameter in model.parameters()]

    compiled = gradients(torch.compile(model, backend="aot_eager"))
    for gradient, expected in zip(compiled, gradients(model), strict=True):
        torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-5)


def test_tied_embeddings_are_one_parameter_and_untied_are_two():
    tied, untied = build("atpm"), build("atpm", tie_word_embeddings=False)
    assert tied.lm_head.weight is tied.model.embed_tokens.weight
    assert untied.lm_head.weight is not untied.model.embed_tokens.weight
    assert untied.num_parameters() == tied.num_parameters() + 64 * 16


def test_streaming_gives_the_generated_text():
    tokenizer = ByteTokenizer()
    model = build("atpm", vocab_size=len(tokenizer))
    inputs = tokenizer("hello", return_tensors="pt")
    streamer = TextIteratorStreamer(tokenizer, skip_prompt=True)
    options = dict(max_new_tokens=6, do_sample=False)
    output = model.generate(**inputs, streamer=streamer, **options)
    assert "".join(streamer) == tokenizer.decode(output[0, 5:])


@torch.no_grad()
def test_the_older_name_of_the_cache_works():
    model, ids = build("atpm"), random_tokens(1, 9)
    output = model(ids[:, :6], use_cache=True)
    assert output.past_key_values is output[CACHE_NAME]
    logits = model(ids[:, 6:], past_key_values=output.past_key_values).logits
    torch.testing.assert_close(logits, model(ids).logits[:, 6:], **TOLERANCE)


@torch.no_grad()
def test_hidden_states_logits_to_keep_and_tuples():
    model, ids = build("atpm"), random_tokens(2, 9)
    output = model(ids, output_hidden_states=True)
    assert len(output.hidden_states) == 3
    assert torch.equal(model(ids, logits_to_keep=2).logits, output.logits[:, -2:])
    index = torch.tensor([0, 4])
    assert torch.equal(model(ids, logits_to_keep=index).logits, output.logits[:, index])
    assert torch.equal(model(ids, return_dict=False)[0], output.logits)
    embedded = model.get_input_embeddings()(ids)
    assert torch.equal(model(inputs_embeds=embedded).logits, output.logits)


@torch.no_grad()
def test_state_of_the_delta_family_does_not_grow():
    model = build("atpm")
    cache = model.new_cache()
    model(random_tokens(1, 5), cache=cache)
    early = cache.nbytes
    model(random_tokens(1, 500), cache=cache)
    assert cache.nbytes == early


def test_a_cache_cannot_be_cropped_and_says_what_to_do():
    cache = build("atpm").new_cache()
    with pytest.raises(NotImplementedError, match="fork"):
        cache.crop(-1)


def test_refusals_are_sentences():
    model, ids = build("atpm"), random_tokens(2, 5)
    with pytest.raises(ValueError, match="exactly one of input_ids and inputs_embeds"):
        model()
    with pytest.raises(ValueError, match=r"attention_mask must have shape .* got \(2, 4\)"):
        model(ids, attention_mask=torch.ones(2, 4))
    with pytest.raises(ValueError, match="two names of one thing"):
        model(ids, cache=model.new_cache(), past_key_values=model.new_cache())
    with pytest.raises(ValueError, match="cache must be a FourfoldCache"):
        model(ids, cache=[1, 2])
    with pytest.raises(ValueError, match="exclude each other"):
        model(
            ids[:1], attention_mask=torch.tensor([[0, 1, 1, 1, 1]]), cu_seqlens=torch.tensor([0, 5])
        )
    with pytest.raises(ValueError, match="cache_implementation"):
        model.generate(ids, max_new_tokens=2, cache_implementation="static")


@pytest.mark.parametrize(
    ("error", "words", "fields"),
    [
        (ValueError, "Did you mean 'atpm'", dict(layer_types=["atmp"])),
        (ValueError, "num_hidden_layers = 3", dict(layer_types=["atpm"], num_hidden_layers=3)),
        (ValueError, "hidden_size must be at least 1", dict(hidden_size=0)),
        (TypeError, "vocab_size must be an integer; got '9'", dict(vocab_size="9")),
        (ValueError, "atpm_key_dim must leave a column", dict(atpm_key_dim=1000)),
        (ValueError, "decay_init must be one of", dict(decay_init="other")),
        (ValueError, "decay_times must be a shortest and a longest", dict(decay_times=[9, 4])),
        (ValueError, r"atpm_rho must lie in \[0, 1\]", dict(atpm_rho=2.0)),
        (ValueError, r"atpm_lambda must lie in \[0, 1\]", dict(atpm_lambda=-1.0)),
        (ValueError, "expand_v", dict(expand_v=0.001)),
    ],
)
def test_configurations_that_cannot_be_built_are_refused(error, words, fields):
    with pytest.raises(error, match=words):
        FourfoldConfig(**fields)


def test_weights_start_smaller_the_deeper_they_stand_if_told():
    config = FourfoldConfig(
        vocab_size=64,
        hidden_size=64,
        num_attention_heads=2,
        layer_types=["mosaic", "attention", "mosaic"],
        initializer_by_depth=True,
    )
    model = FourfoldForCausalLM(config)
    for depth, block in enumerate(model.model.layers):
        std = (2 * 64 * (depth + 1)) ** -0.5
        for module in block.modules():
            if isinstance(module, torch.nn.Linear) and module.weight.numel() > 2000:
                assert float(module.weight.detach().std()) == pytest.approx(std, rel=0.06)
                assert float(module.weight.abs().max()) <= 3 * std
    assert float(model.model.embed_tokens.weight.std()) == pytest.approx(0.02, rel=0.06)


def test_fields_of_other_layers_do_not_decide_what_a_model_is():
    layers = {"layer_types": ["gated_deltanet"]}
    identity = FourfoldConfig(**layers).identity()
    assert identity == FourfoldConfig(**layers, atpm_lambda=0.0, mosaic_delay=3).identity()
    assert identity == FourfoldConfig.completed(identity | {"atpm_unit_query": True})
    assert not [name for name in identity if name.startswith(("atpm", "comba", "mosaic"))]
    hybrid = {"layer_types": ["atpm", "mosaic"]}
    assert (
        FourfoldConfig(**hybrid).identity() != FourfoldConfig(**hybrid, mosaic_delay=3).identity()
    )
    assert (
        FourfoldConfig(**hybrid).identity() != FourfoldConfig(**hybrid, atpm_lambda=0.0).identity()
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_loaded_model_keeps_its_weights_whatever_a_layer_starts_with(kind, tmp_path):
    model = build(kind)
    model.save_pretrained(tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path)
    weights = loaded.state_dict()
    for name, weight in model.state_dict().items():
        assert torch.equal(weights[name], weight), name

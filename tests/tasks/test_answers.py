"""What models are asked, what they say, and how it is scored."""

from __future__ import annotations

import random
from statistics import fmean

import pytest
import torch
import torch.nn.functional as F
from scripted import ScriptedModel
from zoo import KINDS, build

from fourfold import FourfoldConfig, FourfoldForCausalLM
from fourfold.evaluation import answer_cross_entropy, decode, summarise, target_logits
from fourfold.evaluation.answers import Answer
from fourfold.evaluation.scores import bootstrap, part_scores
from fourfold.tasks import Example, Part, Question, Source, make_task
from fourfold.tasks.batch import pack
from fourfold.tasks.mixture import NINE
from fourfold.training import FitOptions, fit

NAMES = [task.name for task in NINE]


def examples_of(name, count=40, split="iid"):
    return Source(make_task(name)).examples(split, 0, count)


def scores(name, reply, split="iid"):
    examples = examples_of(name, split=split)
    model = ScriptedModel(examples, make_task(name).vocab_size, reply)
    return summarise(examples, decode(model, examples, batch_size=16))


@pytest.mark.parametrize("name", [*NAMES, "mixed_all"])
def test_a_model_that_knows_all_answers_scores_one(name):
    found = scores(name, lambda question: question.answer)
    assert found["exact_match"] == found["token_accuracy"] == 1
    assert found["exact_match_interval"] == (1, 1)
    for single in found.get("by_task", {"": found}).values():
        assert {part: value["share"] for part, value in single["parts"].items()} == {
            part: float(part != "stale") for part in single["parts"]
        }


def with_stale(question):
    """Every part that has a stale version, in it; the others as they are right."""
    said = [part.stale[0] if part.stale else part.tokens for part in question.parts]
    return (*(token for tokens in said for token in tokens), question.end)


@pytest.mark.parametrize("name", ["revise", "overwrite", "rebind", "forget"])
def test_a_model_that_says_what_was_right_before_scores_stale_and_not_current(name):
    found = {part: value["share"] for part, value in scores(name, with_stale)["parts"].items()}
    assert found["stale"] == 1
    assert found.get("current", 0) == 0
    assert found.get("untouched", 1) == 1


def test_nonsense_is_neither_current_nor_stale():
    found = scores("overwrite", lambda question: (0, question.end))
    assert {value["share"] for value in found["parts"].values()} == {0.0}
    assert found["exact_match"] == 0
    assert found["token_accuracy"] < 0.5


def test_an_answer_that_does_not_end_in_time_is_not_exact():
    found = scores("kv_recall", lambda question: question.answer[:-1] * 5)
    assert found["exact_match"] == 0
    assert found["token_accuracy"] > 0.4


def test_half_an_entity_is_scored_part_by_part():
    examples = [
        Example(
            (1, 2),
            3,
            (Question((9,), (Part((4,), "current", ((5,), (6,))), Part((7,), "untouched")), 8),),
        )
    ]
    for said, current, stale, untouched in [
        ((4, 7, 8), 1, 0, 1),
        ((5, 7, 8), 0, 1, 1),
        ((6, 0, 8), 0, 1, 0),
        ((4, 8), 1, 0, 0),
        ((3, 3, 3), 0, 0, 0),
    ]:
        question = examples[0].questions[0]
        found = part_scores([Answer(0, question, said, question.answer)])
        assert found == {"current": (current, 1), "stale": (stale, 1), "untouched": (untouched, 1)}


def test_scores_are_kept_by_load_and_a_mixture_is_the_mean_of_its_tasks():
    examples = examples_of("mixed_all", 300)
    lucky = random.Random(0)
    model = ScriptedModel(
        examples,
        make_task("mixed_all").vocab_size,
        lambda q: q.answer if lucky.random() < 0.6 else (0,),
    )
    answers = decode(model, examples)
    found = summarise(examples, answers)
    by_task = {}
    for answer in answers:
        exact = answer.said == answer.right
        by_task.setdefault(examples[answer.example].task, []).append(exact)
    assert found["exact_match"] == pytest.approx(fmean(map(fmean, by_task.values())))
    low, high = found["exact_match_interval"]
    assert low < found["exact_match"] < high
    loads = found["by_task"]["kv_recall"]["by_load"]
    assert set(loads) == {str(load) for load in range(1, 9)}
    assert sum(load["questions"] for load in loads.values()) == len(by_task["kv_recall"])


def test_the_interval_covers_the_mean_as_often_as_it_says():
    draw = random.Random(1)
    hits = 0
    for seed in range(100):
        # Four questions about one context are right or wrong together.
        groups = [[float(draw.random() < 0.7)] * 4 for _ in range(60)]
        low, high = bootstrap([groups], seed=seed)
        hits += low <= 0.7 <= high
    assert hits > 85
    with pytest.raises(ValueError, match="at least one value"):
        bootstrap([[]])


def reread(model, read, question):
    """Greedy decoding that reads everything again for each token."""
    said = []
    stale = max((len(tokens) for part in question.parts for tokens in part.stale), default=0)
    while len(said) < max(len(question.answer), stale + 1) and question.end not in said:
        tokens = torch.tensor([[*read, *question.prompt, *said]])
        said.append(int(model(tokens, use_cache=False).logits[0, -1].argmax()))
    return tuple(said)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["revise", "reverse_recall", "mixed_all"])
@torch.no_grad()
def test_decoding_through_the_state_is_decoding_by_reading_again(name, kind):
    task = make_task(name)
    model = build(kind, vocab_size=task.vocab_size)
    examples = examples_of(name, 6)
    for answer in decode(model, examples, batch_size=4):
        right = reread(model, examples[answer.example].context, answer.question)
        # Side by side some rows run on until the longest answer beside them.
        assert answer.said[: len(right)] == right


@pytest.mark.parametrize("name", ["kv_recall", "mad_recall"])
def test_answers_come_in_the_order_of_examples_and_questions(name):
    task = make_task(name)
    examples = examples_of(name, 20)
    model = build("gated_deltanet", vocab_size=task.vocab_size)
    answers = decode(model, examples, batch_size=3)
    wanted = [
        (number, right)
        for number, example in enumerate(examples)
        for right in [
            *((token,) for _, token in example.probes),
            *(question.answer for question in example.questions),
        ]
    ]
    assert [(answer.example, answer.right) for answer in answers] == wanted
    assert decode(model, examples, batch_size=20) == answers


@torch.no_grad()
def test_probes_are_answered_where_they_stand():
    task = make_task("mqar", {"vocabulary_size": 1024})
    model = build("atpm", vocab_size=1024)
    examples = Source(task).examples("train", 0, 3)
    named = []
    for example in examples:
        for place, _ in example.probes:
            read = torch.tensor([example.context[: place + 1]])
            named.append((int(model(read, use_cache=False).logits[0, -1].argmax()),))
    assert [answer.said for answer in decode(model, examples)] == named


@torch.no_grad()
def test_cross_entropy_is_that_of_the_answers_token_by_token():
    task = make_task("forget")
    model = build("comba", vocab_size=task.vocab_size)
    examples = examples_of("forget", 7)
    nats, right = [], []
    for example in examples:
        read = list(example.context)
        for question in example.questions:
            read += question.prompt
            for token in question.answer:
                logits = model(torch.tensor([read]), use_cache=False).logits[0, -1]
                nats.append(float(F.cross_entropy(logits, torch.tensor(token))))
                right.append(int(logits.argmax()) == token)
                read.append(token)
    loss, accuracy = answer_cross_entropy(model, examples, batch_size=3)
    assert loss == pytest.approx(fmean(nats), rel=1e-4)
    assert accuracy == pytest.approx(fmean(right))


def test_measuring_leaves_a_model_in_the_mode_it_was_in():
    task = make_task("copy")
    model = build("atpm", vocab_size=task.vocab_size).train()
    decode(model, examples_of("copy", 2))
    answer_cross_entropy(model, examples_of("copy", 2))
    assert model.training


def test_a_small_atpm_learns_to_recall_four_pairs(record_property):
    loads = {"iid": (1, 4), "ood": (8, 8), "stress": (16, 16)}
    task = make_task("kv_recall", {"loads": loads, "value_tokens": 1})
    torch.manual_seed(0)
    model = FourfoldForCausalLM(
        FourfoldConfig(
            vocab_size=task.vocab_size,
            hidden_size=64,
            layer_types=["atpm"] * 2,
            num_attention_heads=2,
            head_dim=64,
            expand_v=1.0,
            decay_init="log_spaced",
            decay_times=[256, 4096],
            initializer_range=0.1,
        )
    )
    source = Source(task)

    def next_loss(step):
        batch = pack(source.examples("train", 32 * (step - 1), 32 * step))
        return F.cross_entropy(target_logits(model, batch), batch.targets), batch.tokens.numel()

    options = FitOptions(steps=400, learning_rate=6e-3, warmup_steps=25)
    fit(model, next_loss, options, lambda step: None)
    examples = [e for e in source.examples("iid", 0, 400) if e.load == 4]
    found = summarise(examples, decode(model, examples))["exact_match"]
    record_property("kv_recall with four pairs, exact match of a small ATPM", f"{found:.3f}")
    assert found > 0.95

"""How much a trained model keeps apart: exact match against what else is stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, ClassVar

from fourfold.capacity.operators import IdealMemory
from fourfold.evaluation.answers import check_symbols, decode
from fourfold.evaluation.scores import summarise
from fourfold.layers.delta_family import DeltaFamilyLayer
from fourfold.layers.linear_attention import LinearAttention
from fourfold.models import FourfoldForCausalLM
from fourfold.tasks import Source, make_task
from fourfold.tasks.bindings import BindingTask, Value, written
from fourfold.tasks.example import Example
from fourfold.tasks.kv_recall import KeyValueRecall
from fourfold.tasks.overwrite import Overwrite
from fourfold.tasks.task import Loads, Split

Row = dict[str, Any]

FURTHER = (0, 1, 2, 4, 8, 16)
"""Writes that come between an item and the question for it."""


def trained_capacity(
    model: FourfoldForCausalLM,
    task: str,
    settings: dict[str, Any],
    *,
    items: Sequence[int],
    examples: int = 200,
) -> Iterator[Row]:
    """Scores of a model on a task at each load.

    Args:
        task: such as kv_recall, whose load is its pairs.
        settings: fields of the task that the model was trained with, but for the loads.
        items: loads.
        examples: at each.

    Returns:
        a row each: items, what ``summarise`` has and, of kv_recall, what ``ideal_memory`` recalls
        of as many items, with its standard error.

    Raises:
        ValueError: the task has no such field or not as many symbols, or the model was trained on
            another vocabulary.
    """
    for load in items:
        loads = {split: (load, load) for split in ("iid", "ood", "stress")}
        built = make_task(task, settings | {"loads": loads})
        check_symbols(model, built)
        drawn = Source(built).examples("iid", 0, examples)
        row = {"items": load, **summarise(drawn, decode(model, drawn))}
        if isinstance(built, KeyValueRecall) and (ideal := ideal_memory(model, built)):
            row["ideal"], row["ideal_se"] = ideal.recalled(load)
        yield row


def trained_interference(
    model: FourfoldForCausalLM,
    task: str,
    settings: dict[str, Any],
    *,
    stored: int = 8,
    further: Sequence[int] = FURTHER,
    examples: int = 200,
) -> Iterator[Row]:
    """What further writes do to items that they do not name.

    ``stored`` items are written, then further ones: of new keys, or again of keys of the second
    half, in turn, with other values. Asked are items of the first half.

    Args:
        task: kv_recall or overwrite, whose contexts are such writes; other tasks have no rows. Keys
            that are written again are no part of kv_recall.
        settings: fields of the task that the model was trained with.
        stored: 2 or more.
        further: how many; of new keys only as many as the vocabulary has.
        examples: at each.

    Yields:
        kind ("new" or "again"), stored, further, exact_match with its 95 % interval, token_accuracy
        and what ``ideal_memory`` recalls, with its standard error.

    Raises:
        ValueError: as ``trained_capacity``.
    """
    trained = make_task(task, settings)
    check_symbols(model, trained)
    if not isinstance(trained, (KeyValueRecall, Overwrite)):
        return
    shared = {name: getattr(trained, name) for name in BindingTask.model_fields if name != "loads"}
    ideal = ideal_memory(model, trained)
    for again in (False, True):
        for count in further:
            if not again and stored + count > trained.vocabulary.keys:
                continue
            disturbed = _Disturbed(**shared, stored=stored, further=count, again=again)
            drawn = Source(disturbed).examples("iid", 0, examples)
            scores = summarise(drawn, decode(model, drawn))
            row: Row = {"kind": "again" if again else "new", "stored": stored, "further": count}
            for name in ("examples", "exact_match", "exact_match_interval", "token_accuracy"):
                row[name] = scores[name]
            if ideal is not None:
                row["ideal"], row["ideal_se"] = ideal.recalled(
                    stored, further=count, again=again, asked=stored // 2
                )
            yield row


def ideal_memory(model: FourfoldForCausalLM, task: BindingTask) -> IdealMemory | None:
    """An operator of the size of the model's first layer of the delta family, with ideal random
    addresses and no decay, that stores values as random vectors; None if there is no such layer.
    """
    for layer in model.modules():
        if isinstance(layer, DeltaFamilyLayer):
            values = task.vocabulary.values
            return IdealMemory(
                rule="linear" if isinstance(layer, LinearAttention) else "delta",
                address_dim=layer.address_dim,
                columns=layer.num_heads * layer.columns,
                heads=layer.num_heads,
                codebook=sum(values**length for length in range(1, task.value_tokens + 1)),
            )
    return None


class _Disturbed(BindingTask):
    """Pairs, then further writes that name none of the first half, and questions for these.

    Attributes:
        stored, further, again: as in ``trained_interference``.
    """

    name: ClassVar[str] = "interference"
    asks_for: ClassVar[str] = "Read"
    load_is: ClassVar[str] = "further writes"
    loads: Loads = Loads(iid=(1, 1), ood=(1, 1), stress=(1, 1))
    stored: int
    further: int
    again: bool

    def needs(self, load: int) -> dict[str, int]:
        return {"key": self.stored + (0 if self.again else self.further), "value": 2}

    def draw(self, random: Random, split: Split) -> Example:
        return self.example(random, self.further)

    def example(self, random: Random, load: int) -> Example:
        keys = self.sample(random, "key", self.needs(load)["key"])
        first, half = keys[: self.stored], self.stored // 2
        pairs = self.bind(random, first)
        context = written(pairs)
        others = first[half:] if self.again else keys[self.stored :]
        held: dict[int, Value] = dict(pairs)
        for place in range(load):
            key = others[place % len(others)]
            held[key] = self.new_value(random, (held[key],) if key in held else ())
            context += [key, *held[key]]
        asked = random.sample(first[:half], min(half, self.questions))
        questions = tuple(self.about(key, pairs[key], "untouched") for key in asked)
        return Example(tuple(context), load, questions)

"""A grid of runs as a file: which tasks, models, rates and seeds."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator, model_validator

from fourfold.model_fields import as_fields, check_layer
from fourfold.models import FourfoldConfig
from fourfold.models.matching import match_parameters
from fourfold.settings import Section, near, read_mapping, validated
from fourfold.tasks import Task, make_task
from fourfold.training.warm_up import end_within

TOLERANCE = 0.02
"""How far a model's parameters may lie from the budget, as a share of it."""

REACHED = frozenset({"vocab_size", "layer_types", "num_hidden_layers", "intermediate_size"})
"""Fields of ``FourfoldConfig`` that follow from the task, the model and the budget."""


def slug(name: str) -> str:
    """A model's name as part of a path: "ATPM, ρ = 0" is "atpm-rho-0"."""
    for letter, word in {"ρ": "rho", "λ": "lambda", "β": "beta"}.items():
        name = name.replace(letter, word)
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


class ModelEntry(Section):
    """One of the models that are compared.

    Attributes:
        layer: the memory in all of its layers, a name of ``layer_types``.
        fields: further fields of ``FourfoldConfig``, over those of the whole grid.
        rate_of: the model whose learning rate it takes, in place of a search of its own.
        seeds: its own list in place of the grid's.
        layers: its own number in place of the grid's.
    """

    layer: str
    fields: dict[str, Any] = Field(default_factory=dict)
    rate_of: str | None = None
    seeds: tuple[int, ...] | None = Field(default=None, min_length=1)
    layers: int | None = Field(default=None, ge=1)

    @field_validator("layer")
    @classmethod
    def _known(cls, layer: str) -> str:
        return check_layer(layer)

    @field_validator("fields")
    @classmethod
    def _of_a_configuration(cls, fields: dict[str, Any]) -> dict[str, Any]:
        return as_fields(fields)


class TrainingEntry(Section):
    """How every model is trained; see ``FitOptions``.

    Attributes:
        batch_size: examples a step.
    """

    steps: int = Field(default=3000, ge=1)
    batch_size: int = Field(default=32, ge=1)
    warmup_steps: int = Field(default=150, ge=0)
    weight_decay: float = Field(default=0.1, ge=0)
    gradient_clip: float = Field(default=1.0, gt=0)

    @model_validator(mode="after")
    def _warm_up_within_the_run(self) -> TrainingEntry:
        end_within(self, self.steps)
        return self


class EvaluationEntry(Section):
    """How every model is measured.

    Attributes:
        examples: of each test split.
        validation_examples: those by which the learning rate is chosen.
        curve_points: validations along the training.
    """

    examples: int = Field(default=500, ge=1)
    validation_examples: int = Field(default=250, ge=1)
    curve_points: int = Field(default=20, ge=1)


class Grid(Section):
    """Tasks × models × rates × seeds.

    The rates of each model are tried with its first seed; the best on the validation split is taken
    for the other seeds.

    Attributes:
        tasks: names, with fields that differ from the defaults.
        models: by the name that tables show.
        parameters: of every model, met within 2 % by the width of the feed-forward.
        layers: of every model that does not have its own.
        fields: of every model's ``FourfoldConfig``.
        rates: learning rates that are tried.
        seeds: of weights and training examples.
        training, evaluation: see there.
        keep_models: also save every trained model.
    """

    tasks: dict[str, dict[str, Any]] = Field(min_length=1)
    models: dict[str, ModelEntry] = Field(min_length=1)
    parameters: int = Field(default=160_000, ge=1)
    layers: int = Field(default=2, ge=1)
    fields: dict[str, Any] = Field(default_factory=dict)
    rates: tuple[float, ...] = Field(min_length=1)
    seeds: tuple[int, ...] = Field(default=(0,), min_length=1)
    training: TrainingEntry = Field(default_factory=TrainingEntry)
    evaluation: EvaluationEntry = Field(default_factory=EvaluationEntry)
    keep_models: bool = False

    @field_validator("tasks", mode="before")
    @classmethod
    def _names_alone(cls, tasks: Any) -> Any:
        """A list of names will do where nothing differs from the defaults."""
        if isinstance(tasks, list):
            return {name: {} for name in tasks}
        if isinstance(tasks, dict):
            return {name: settings or {} for name, settings in tasks.items()}
        return tasks

    @field_validator("fields")
    @classmethod
    def _of_a_configuration(cls, fields: dict[str, Any]) -> dict[str, Any]:
        return as_fields(fields)

    @field_validator("rates")
    @classmethod
    def _positive(cls, rates: tuple[float, ...]) -> tuple[float, ...]:
        if min(rates) <= 0 or len(set(rates)) < len(rates):
            raise ValueError(f"rates must be positive and differ; got {rates}.")
        return rates

    @field_validator("models")
    @classmethod
    def _names_differ(cls, models: dict[str, ModelEntry]) -> dict[str, ModelEntry]:
        """Also where they are parts of a path."""
        taken: dict[str, str] = {}
        for name in models:
            other = taken.setdefault(slug(name), name)
            if not slug(name) or other != name:
                raise ValueError(
                    "names of models must differ in Latin letters or digits, whatever their case; "
                    f"got {name!r}" + (f" and {other!r}." if other != name else ".")
                )
        return models

    @model_validator(mode="after")
    def _consistent(self) -> Grid:
        for name, entry in self.models.items():
            leader = entry.rate_of
            if leader is not None and (
                leader not in self.models or self.models[leader].rate_of is not None
            ):
                own = [other for other, model in self.models.items() if model.rate_of is None]
                raise ValueError(
                    f"rate_of of model {name!r} must name a model that searches its own rate, one "
                    f"of {', '.join(own)}; got {leader!r}.{near(leader, own)}"
                )
            for field in {**self.fields, **entry.fields}:
                if field in REACHED:
                    raise ValueError(
                        f"fields of model {name!r} must leave {field} alone: it follows from the "
                        "task, the layer and the number of parameters."
                    )
        # Whatever no run could be made of is refused here, before the first one.
        assert self.built_tasks
        assert self.configurations
        return self

    @cached_property
    def built_tasks(self) -> dict[str, Task]:
        """The tasks by name."""
        return {name: make_task(name, settings) for name, settings in self.tasks.items()}

    @property
    def layer_types(self) -> set[str]:
        """The memories of all models."""
        return {entry.layer for entry in self.models.values()}

    @cached_property
    def configurations(self) -> dict[tuple[str, str], FourfoldConfig]:
        """The configuration for each pair of task and model."""
        sizes = {task.vocab_size for task in self.built_tasks.values()}
        matched = {(size, name): self._match(size, name) for size in sizes for name in self.models}
        return {
            (task, name): matched[built.vocab_size, name]
            for task, built in self.built_tasks.items()
            for name in self.models
        }

    def _match(self, vocab_size: int, name: str) -> FourfoldConfig:
        entry = self.models[name]
        fields = {
            "pad_token_id": None,
            "bos_token_id": None,
            "eos_token_id": None,
            **self.fields,
            **entry.fields,
            "vocab_size": vocab_size,
            "layer_types": [entry.layer] * (entry.layers or self.layers),
        }
        return match_parameters(FourfoldConfig(**fields), self.parameters, tolerance=TOLERANCE)

    def seeds_of(self, model: str) -> tuple[int, ...]:
        """The seeds of a model, the one of the search first."""
        own = self.models[model].seeds
        return self.seeds if own is None else own


def read_grid(path: Path) -> Grid:
    """The grid in a YAML file.

    Raises:
        OSError: there is no such file.
        ValueError: a sentence that says what in it cannot be accepted.
    """
    return validated(Grid, read_mapping(path, "tasks, models and rates"), str(path))

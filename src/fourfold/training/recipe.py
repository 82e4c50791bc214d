"""A training run as a file: which model, which text, how long."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from fourfold.data.entry import DataEntry
from fourfold.data.lanes import Memory
from fourfold.model_fields import as_fields, check_layer
from fourfold.models import FourfoldConfig
from fourfold.models.matching import match_parameters
from fourfold.settings import Section, change_fields, read_mapping, validated
from fourfold.training.warm_up import end_within

PARAMETER_TOLERANCE = 0.02

SPECIAL_TOKENS = ("pad_token_id", "bos_token_id", "eos_token_id")
"""Fields of ``FourfoldConfig`` that are the tokenizer's, as the size of the vocabulary is."""


class ModelEntry(Section):
    """The model.

    Attributes:
        layer: the memory in all layers; or name one for each in fields.layer_types.
        layers: how many.
        parameters: of the whole model, met within 2 % by the width of the feed-forward; None takes
            the width in fields.
        fields: of ``FourfoldConfig``; vocabulary and special tokens are those of the tokenizer.
    """

    layer: str | None = None
    layers: int | None = Field(default=None, ge=1)
    parameters: int | None = Field(default=None, ge=1)
    fields: dict[str, Any] = Field(default_factory=dict)

    @field_validator("fields")
    @classmethod
    def _fields_of_a_configuration(cls, fields: dict[str, Any]) -> dict[str, Any]:
        for name in fields:
            if name in ("vocab_size", *SPECIAL_TOKENS):
                raise ValueError(f"fields must leave {name} alone: it is that of the tokenizer.")
        return as_fields(fields)

    @model_validator(mode="after")
    def _consistent(self) -> ModelEntry:
        if (self.layer is None) == ("layer_types" not in self.fields):
            raise ValueError("give either layer, for all layers, or fields.layer_types.")
        if self.layer is not None:
            check_layer(self.layer)
        if (self.layer is None) != (self.layers is None):
            raise ValueError("layer and layers belong together: which memory, and how many times.")
        return self

    def configuration(
        self, vocab_size: int, special_tokens: Mapping[str, int | None] | None = None
    ) -> FourfoldConfig:
        """The configuration for a tokenizer.

        Args:
            vocab_size: its entries.
            special_tokens: the ``SPECIAL_TOKENS`` that it has; None for a model without any.

        Raises:
            ValueError: a value that ``FourfoldConfig`` refuses, or no width gives the parameters.
        """
        fields: dict[str, Any] = dict.fromkeys(SPECIAL_TOKENS)
        fields |= {**self.fields, **(special_tokens or {}), "vocab_size": vocab_size}
        if self.layer is not None and self.layers is not None:
            fields["layer_types"] = [self.layer] * self.layers
        config = FourfoldConfig(**fields)
        if self.parameters is None:
            return config
        return match_parameters(config, self.parameters, tolerance=PARAMETER_TOLERANCE)


class TrainingEntry(Section):
    """How the model is trained.

    Attributes:
        steps: updates; or give ``tokens``, of which as many updates are made as use them up.
        batch_size: sequences that are read side by side, over all processes.
        sequence_length: tokens of each in one window.
        accumulation: windows read one after another before an update.
        memory: where it starts empty, "window", "document" or "stream".
        shuffle: whether documents are read in random order, another in each epoch.
        learning_rate, warmup_steps, final_share, weight_decay, gradient_clip: see ``FitOptions``.
            The warm-up is shorter than the run; where it is not given it takes a tenth of the run,
            100 steps at most.
        precision: of the products. Weights, their gradients, the optimiser's state and what a
            memory rewrites at every token are float32 always; what it only stores, such as keys and
            values of attention, is as it was computed.
        gradient_checkpointing: compute layers again in the backward pass, to save memory.
        seed: of weights and order.
    """

    steps: int | None = Field(default=None, ge=1)
    tokens: int | None = Field(default=None, ge=1)
    batch_size: int = Field(default=16, ge=1)
    sequence_length: int = Field(default=512, ge=2)
    accumulation: int = Field(default=1, ge=1)
    memory: Memory = "document"
    shuffle: bool = True
    learning_rate: float = Field(default=2e-3, gt=0, allow_inf_nan=False)
    warmup_steps: int = Field(default=100, ge=0)
    final_share: float = Field(default=0.1, ge=0, le=1)
    weight_decay: float = Field(default=0.1, ge=0, allow_inf_nan=False)
    gradient_clip: float = Field(default=1.0, gt=0)
    precision: Literal["float32", "bfloat16"] = "float32"
    gradient_checkpointing: bool = False
    seed: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _one_length(self) -> TrainingEntry:
        if (self.steps is None) == (self.tokens is None):
            raise ValueError("give either steps or tokens.")
        return self

    @model_validator(mode="after")
    def _warm_up_within_the_run(self) -> TrainingEntry:
        end_within(self, self.total_steps)
        return self

    @property
    def tokens_per_step(self) -> int:
        """Read before an update, over all processes."""
        return self.batch_size * self.sequence_length * self.accumulation

    @property
    def total_steps(self) -> int:
        """Updates of the whole run."""
        if self.steps is not None:
            return self.steps
        assert self.tokens is not None
        return max(1, self.tokens // self.tokens_per_step)


class CheckpointEntry(Section):
    """What is kept to go on from.

    Attributes:
        every: steps between two checkpoints.
        keep: how many of the latest.
    """

    every: int = Field(default=500, ge=1)
    keep: int = Field(default=2, ge=1)


class EvaluationEntry(Section):
    """Validation while training.

    Attributes:
        every: steps between two validations.
        tokens: of the validation text that are predicted each time; all of it if it has fewer. They
            come from all over it, in parts of ``sequence_length``, or of tokens / batch_size if
            that is more; shorter documents are read whole.
    """

    every: int = Field(default=500, ge=1)
    tokens: int = Field(default=65_536, ge=2)


class Recipe(Section):
    """All that a training run depends on, and what it keeps.

    Attributes:
        model, data, training, checkpoints, evaluation: see there.
        tokenizer: "bytes", or a folder or name that ``AutoTokenizer`` loads.
        trackers: of Accelerate, such as tensorboard and wandb, beside the console and log.csv.
    """

    model: ModelEntry
    tokenizer: str = "bytes"
    data: DataEntry
    training: TrainingEntry
    checkpoints: CheckpointEntry = Field(default_factory=CheckpointEntry)
    evaluation: EvaluationEntry = Field(default_factory=EvaluationEntry)
    trackers: tuple[str, ...] = ()

    @field_validator("trackers", mode="before")
    @classmethod
    def _one_or_several(cls, trackers: Any) -> Any:
        return (trackers,) if isinstance(trackers, str) else trackers


def read_recipe(path: Path, changes: tuple[str, ...] = ()) -> Recipe:
    """The recipe in a YAML file.

    Args:
        changes: "training.steps=100" and so on; the value is read as YAML.

    Raises:
        OSError: there is no such file.
        ValueError: a sentence that says what cannot be accepted.
    """
    content = read_mapping(path, "model, data and training")
    change_fields(content, changes, like="training.steps=100")
    return validated(Recipe, content, str(path))

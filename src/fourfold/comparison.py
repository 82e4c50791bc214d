"""Models of equal size, trained on the same text: which memory predicts it best."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from fourfold.data import Corpus
from fourfold.evaluation import bits_per_byte, state_bytes, windows
from fourfold.models import ByteTokenizer, FourfoldConfig, FourfoldForCausalLM
from fourfold.models.matching import count_parameters, match_parameters
from fourfold.models.registry import sources_of
from fourfold.results import provenance, read_result, refuse_other, write_result
from fourfold.training import Step, TrainingOptions, train

MODELS = {
    "ATPM": "atpm",
    "Gated DeltaNet": "gated_deltanet",
    "Transformer": "attention",
    "LSTM": "lstm",
}
"""The four models, by the memory in all of their layers; the first sets the size."""

VALIDATION_WINDOWS = 64
VALIDATION_LENGTH = 512


@dataclass(frozen=True)
class ComparisonOptions:
    """Size of the models and length of their training.

    Attributes:
        hidden_size, num_layers, num_heads: of every model.
        training: the same for all.
        seed: of the weights.
        evaluations: validation points along each curve.
    """

    hidden_size: int = 64
    num_layers: int = 2
    num_heads: int = 2
    training: TrainingOptions = field(default_factory=TrainingOptions)
    seed: int = 0
    evaluations: int = 5


def model_configurations(
    options: ComparisonOptions, also: Sequence[str] = ()
) -> dict[str, FourfoldConfig]:
    """The configuration of each model, all of the first one's number of parameters.

    Args:
        also: layer types to compare beside ``MODELS``, each under its own name.

    Raises:
        ValueError: there is no such layer type, or no model of that size with it.
    """
    configurations: dict[str, FourfoldConfig] = {}
    parameters = None
    others = {name: name for name in also if name not in MODELS.values()}
    for name, layer_type in (MODELS | others).items():
        config = FourfoldConfig(
            hidden_size=options.hidden_size,
            num_attention_heads=options.num_heads,
            layer_types=[layer_type] * options.num_layers,
            decay_init="log_spaced",
        )
        if parameters is None:
            parameters = count_parameters(config)
        else:
            config = match_parameters(config, parameters)
        configurations[name] = config
    return configurations


def run_model(
    name: str,
    config: FourfoldConfig,
    corpus: Corpus,
    options: ComparisonOptions,
    folder: Path,
    on_step: Callable[[Step], None],
) -> dict[str, Any]:
    """Train one model, measure it, and keep model and result in ``folder``.

    A result that is there already, of the same configuration, options and text, is returned as it
    is.

    Raises:
        ValueError: too little text, or a result of other settings is there, which is left alone.
        ArithmeticError: the loss is no longer finite.
    """
    setting = {
        "model": name,
        "configuration": config.identity(),
        "options": asdict(options),
        "seed": options.seed,
        "text": {
            "sha256": corpus.fingerprint(),
            "train_tokens": len(corpus.train),
            "validation_tokens": len(corpus.validation),
        },
        **sources_of(config.layer_types),
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "result.json"
    result = read_result(path)
    if result is not None:
        # Through JSON and back, as the result went.
        wanted = json.loads(json.dumps(setting))
        refuse_other(path, (key for key, value in wanted.items() if result.get(key) != value))
        return result

    began = time.perf_counter()
    length = min(VALIDATION_LENGTH, len(corpus.validation))
    validation = windows(corpus.validation, length=length, count=VALIDATION_WINDOWS)
    torch.manual_seed(options.seed)
    model = FourfoldForCausalLM(config)
    tokens_per_step = options.training.batch_size * options.training.sequence_length
    curve: list[dict[str, float]] = []
    losses: list[float] = []
    speed = 0.0
    interval = max(1, options.training.steps // options.evaluations)

    def record(step: Step) -> None:
        nonlocal speed
        speed = step.tokens_per_second
        losses.append(step.loss)
        if step.step % interval == 0 or step.step == options.training.steps:
            point = {"tokens": step.step * tokens_per_step}
            curve.append(point | {"bits_per_byte": bits_per_byte(model, validation)})
        on_step(step)

    train(model, corpus.train, options.training, record)
    model.eval().save_pretrained(folder)
    ByteTokenizer().save_pretrained(folder)
    result = setting | {
        "text_name": corpus.name,
        "parameters": model.num_parameters(),
        "state_bytes": state_bytes(model, length),
        "state_bytes_at_tokens": length,
        "validation_bits_per_byte": curve[-1]["bits_per_byte"],
        "train_tokens_per_second": speed,
        "validation_curve": curve,
        "train_loss_nats": losses,
        "tokens_per_step": tokens_per_step,
        "wall_seconds": time.perf_counter() - began,
        **provenance(),
    }
    write_result(path, result)
    return result


def with_steps(options: ComparisonOptions, steps: int) -> ComparisonOptions:
    """The same comparison with a training of ``steps`` updates, a tenth of them for warming up."""
    training = replace(options.training, steps=steps, warmup_steps=steps // 10)
    return replace(options, training=training)

"""The recipe alone decides what comes out, whatever stands in the environment."""

from __future__ import annotations

import math
import os

import pytest
import torch
import torch.nn.functional as F
from runs import CONTEXT, together, train, write_recipe

from fourfold.ops.pointwise import IGNORED
from fourfold.training.engine import OTHER_ENGINES, make_accelerator
from fourfold.training.log import read_log
from fourfold.training.recipe import read_recipe
from fourfold.training.trainer import Trainer

SILENT = {
    "ACCELERATE_GRADIENT_ACCUMULATION_STEPS": "4",
    "ACCELERATE_MIXED_PRECISION": "bf16",
    "ACCELERATE_DYNAMO_BACKEND": "eager",
    "ACCELERATE_GRADIENT_CLIPPING": "0.01",
}


def rows(recipe, out, environment):
    process = CONTEXT.Process(target=train, args=(recipe, out, environment))
    process.start()
    process.join()
    assert process.exitcode == 0
    return [row | {"seconds": ""} for row in read_log(out / "log.csv")]


def test_variables_of_accelerate_change_nothing(tmp_path):
    recipe = write_recipe(tmp_path, steps=4, gradient_clip=0.5)
    wanted = rows(recipe, tmp_path / "wanted", {})
    assert rows(recipe, tmp_path / "found", SILENT) == wanted


@pytest.mark.parametrize("variable", OTHER_ENGINES)
def test_an_engine_that_a_run_is_not_made_for_is_refused(variable, tmp_path, monkeypatch):
    recipe = read_recipe(write_recipe(tmp_path))
    monkeypatch.setenv(variable, "true")
    with pytest.raises(
        ValueError, match=f"in one process, with DDP, or with FSDP2; got .*{variable}"
    ):
        make_accelerator(recipe, tmp_path)


def refuse(variables, sentence, recipe, environment):
    os.environ.update(environment | {"ACCELERATE_USE_FSDP": "true"} | variables)
    from accelerate import PartialState
    from accelerate.utils import DistributedType

    PartialState(cpu=True)
    PartialState._shared_state["distributed_type"] = DistributedType.MULTI_GPU  # as if it were one
    with pytest.raises(ValueError, match=sentence):
        make_accelerator(read_recipe(recipe), recipe.parent)


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"FSDP_VERSION": "1"}, "FSDP must be of version 2"),
        (
            {"FSDP_VERSION": "2", "FSDP_ACTIVATION_CHECKPOINTING": "true"},
            "Leave fsdp_activation_checkpointing off",
        ),
    ],
)
def test_sharding_that_a_run_is_not_made_for_is_refused(variables, sentence, tmp_path):
    [process] = together(1, refuse, variables, sentence, write_recipe(tmp_path))
    process.join()
    assert process.exitcode == 0


@pytest.mark.parametrize("memory", ["window", "document"])
@pytest.mark.parametrize("accumulation", [1, 3])
def test_a_step_takes_the_gradient_of_all_its_tokens(memory, accumulation, tmp_path):
    recipe = read_recipe(
        write_recipe(
            tmp_path, steps=1, accumulation=accumulation, memory=memory, sequence_length=40
        )
    )
    trainer = Trainer(recipe, tmp_path / "direct")
    model, total, predicted, size = trainer.plain_model, torch.zeros(()), 0, 0.0
    states = [model.new_cache() for _ in range(4)]
    for _ in range(accumulation):
        window = next(trainer.lanes)
        starts, stops = window.cu_seqlens[:-1].tolist(), window.cu_seqlens[1:].tolist()
        read = []
        for start, stop, origin in zip(starts, stops, window.origins.tolist(), strict=True):
            cache = model.new_cache() if origin < 0 else states[origin]
            cache.detach()
            logits = model(window.tokens[:, start:stop], cache=cache, use_cache=True).logits[0]
            total = total + F.cross_entropy(
                logits, window.targets[start:stop], ignore_index=IGNORED, reduction="sum"
            )
            read.append(cache)
        states = [read[last] for last in window.last.tolist()]
        predicted += int((window.targets != IGNORED).sum())
        size += float(window.bytes)
    trainer.lanes.close()
    (total / predicted).backward()
    nats = total.item()
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    norm = torch.stack([gradient.double().square().sum() for gradient in gradients]).sum().sqrt()

    run = Trainer(recipe, tmp_path / "run")
    run.run()
    [row] = read_log(tmp_path / "run" / "log.csv")
    assert int(row["tokens"]) == 4 * 40 * accumulation
    assert float(row["loss"]) == pytest.approx(nats / predicted, rel=1e-5)
    assert float(row["gradient_norm"]) == pytest.approx(float(norm), rel=1e-4)
    assert float(row["bits_per_byte"]) == pytest.approx(nats / math.log(2) / size, rel=1e-5)


def test_tensorboard_is_given_what_the_log_holds(tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    recipe = write_recipe(tmp_path, steps=4, evaluate=2)
    recipe.write_text(recipe.read_text() + "trackers: tensorboard\n")
    log = rows(recipe, tmp_path / "out", {})
    found = EventAccumulator(str(tmp_path / "out" / "trackers" / "fourfold")).Reload()
    for name in ("loss", "bits_per_byte", "learning_rate", "gradient_norm"):
        points = [(point.step, point.value) for point in found.Scalars(name)]
        assert points == [
            (int(row["step"]), pytest.approx(float(row[name]), rel=1e-6)) for row in log
        ]
    assert [point.step for point in found.Scalars("validation_bits_per_byte")] == [2, 4]

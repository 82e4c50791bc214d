"""Several processes train as one does."""

from __future__ import annotations

import json

import pytest
import torch
import yaml
from list_order import END, ListOrder
from runs import CONTEXT, start, start_together, stream_recipe, together, train, write_recipe

from fourfold.data.lanes import Lanes
from fourfold.models import FourfoldConfig, FourfoldForCausalLM
from fourfold.ops.pointwise import IGNORED
from fourfold.training.log import read_log
from fourfold.training.loop import FitOptions, make_optimizer
from fourfold.training.state import (
    load_model_tensors,
    load_optimizer_tensors,
    model_tensors,
    optimizer_tensors,
)
from fourfold.training.window_loss import window_loss


def join(processes):
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * len(processes)


def losses(out):
    logs = read_log(out / "log.csv"), read_log(out / "validation.csv")
    return [float(row["loss"]) for log in logs for row in log]


@pytest.mark.parametrize("memory", ["window", "document", "stream"])
def test_two_processes_have_the_losses_of_one(memory, tmp_path):
    recipe = write_recipe(tmp_path, memory=memory, accumulation=2)
    # All of the validation text, at whose end one process has nothing left to read, or a part.
    content = yaml.safe_load(recipe.read_text())
    content["evaluation"]["tokens"] = wanted = 1_000_000 if memory == "window" else 90
    recipe.write_text(yaml.safe_dump(content))
    one, two = tmp_path / "one", tmp_path / "two"
    join([start(recipe, one)])
    join(start_together(recipe, two, 2))
    assert losses(two) == pytest.approx(losses(one), abs=1e-5)
    read = [
        json.loads((out / "result.json").read_text())["validation_tokens"] for out in (one, two)
    ]
    assert read[0] == read[1]
    assert read[0] == wanted or 90 < read[0] < wanted == 1_000_000


def test_bad_records_are_those_of_all_processes_and_of_runs_before(tmp_path):
    recipe = stream_recipe(tmp_path, steps=6, checkpoints={"every": 2, "keep": 1})
    join(start_together(recipe, tmp_path / "out", 2))
    (tmp_path / "out" / "result.json").unlink()  # as if it had been killed just before
    join(start_together(recipe, tmp_path / "out", 2))
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["left_out"]["streamed"] == {"bad": 4, "empty": 3}


def train_and_say(recipe, out, largest_file, environment):
    """What is raised goes to a file; nothing that the first process writes may be larger."""
    import resource

    if environment["RANK"] == "0":
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))
    try:
        train(recipe, out, environment)
    except (OSError, ValueError) as error:
        (recipe.parent / f"said-{environment['RANK']}").write_text(str(error))


def said_by_two(recipe, largest_file):
    join(together(2, train_and_say, recipe, recipe.parent / "out", largest_file))
    return [(recipe.parent / f"said-{rank}").read_text() for rank in (0, 1)]


def test_a_disk_that_is_full_for_one_process_stops_both_with_a_sentence(tmp_path):
    first, second = said_by_two(write_recipe(tmp_path), largest_file=10_000)
    assert "The checkpoint of step 7 cannot be written" in first
    assert "another process failed and says why" in second
    assert [*(tmp_path / "out" / "checkpoints").iterdir()] == []


def test_text_that_the_first_process_cannot_read_stops_both_with_a_sentence(tmp_path):
    recipe = write_recipe(tmp_path)
    for path in (tmp_path / "text").iterdir():
        path.write_text("")
    first, second = said_by_two(recipe, largest_file=1_000_000)
    assert "There is no text in" in first
    assert second == "another process failed and says why"


def test_two_processes_go_on_where_they_were_killed(tmp_path):
    recipe = write_recipe(tmp_path, steps=150)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    join(start_together(recipe, whole, 2))
    processes = start_together(recipe, killed, 2)
    while len(read_log(killed / "log.csv")) < 50:
        assert all(process.is_alive() for process in processes)
    for process in processes:
        process.kill()
        process.join()
    assert not (killed / "result.json").exists()
    join(start_together(recipe, killed, 2))
    assert losses(killed) == losses(whole)


def train_sharded(folder, world, environment):
    """Six steps of a model that is sharded by FSDP2, taken apart and put together after three."""
    import os

    os.environ.update(environment)
    torch.set_num_threads(1)
    rank = int(environment.get("RANK", 0))
    if world > 1:
        torch.distributed.init_process_group("gloo")
    model, optimizer = sharded(world)
    documents = [[(7 * i + j) % END for j in range(30)] for i in range(5)]
    lanes = Lanes(
        ListOrder(documents),
        lanes=4,
        length=8,
        memory="document",
        mine=range(4 * rank // world, 4 * (rank + 1) // world),
    )
    cache, found = model.new_cache(), []
    for step in range(6):
        if step == 3:
            weights, moments = model_tensors(model), optimizer_tensors(model, optimizer)
            model, optimizer = sharded(world, seed=1)
            load_model_tensors(model, weights)
            load_optimizer_tensors(model, optimizer, moments)
        window = next(lanes)
        predicted = (window.targets != IGNORED).sum()
        if world > 1:
            torch.distributed.all_reduce(predicted)
        loss = window_loss(model, window, cache) / predicted
        (loss * world).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        total = loss.detach().clone()
        if world > 1:
            torch.distributed.all_reduce(total)
        found.append(total.item())
    (folder / f"losses-{world}-{rank}.json").write_text(json.dumps(found))


def sharded(world, seed=0):
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import DTensor

    torch.manual_seed(seed)
    config = FourfoldConfig(
        hidden_size=16,
        num_attention_heads=1,
        layer_types=["atpm", "gated_deltanet", "attention", "lstm"],
        vocab_size=END + 1,
    )
    model = FourfoldForCausalLM(config)
    if world > 1:
        for block in model.model.layers:
            fully_shard(block)
        fully_shard(model)
        assert all(isinstance(parameter, DTensor) for parameter in model.parameters())
    return model, make_optimizer(model, FitOptions(learning_rate=0.01))


def test_sharded_weights_train_and_are_kept_as_whole_ones(tmp_path):
    # Accelerate shards on accelerators only, so this shards as Accelerate would, on two CPUs.
    alone = CONTEXT.Process(target=train_sharded, args=(tmp_path, 1, {}))
    alone.start()
    join([alone])
    join(together(2, train_sharded, tmp_path, 2))
    wanted = json.loads((tmp_path / "losses-1-0.json").read_text())
    assert wanted[-1] < wanted[0]
    for rank in (0, 1):
        found = json.loads((tmp_path / f"losses-2-{rank}.json").read_text())
        assert found == pytest.approx(wanted, abs=1e-5)

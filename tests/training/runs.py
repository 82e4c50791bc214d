"""Training runs in processes of their own, for tests that kill them and compare them."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import socket
from pathlib import Path

import yaml

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["fourfold.training.trainer"])


def write_recipe(
    folder: Path, *, layers=("atpm", "atpm"), every=7, evaluate=50, **training
) -> Path:
    """A recipe of seconds, its text beside it.

    Args:
        layers: the memory of each.
        every, evaluate: steps between two checkpoints, and between two validations.
    """
    same = len(set(layers)) == 1
    memory = {"layer": layers[0], "layers": len(layers)} if same else {}
    training = {"steps": 20, **training}
    training.setdefault("warmup_steps", min(5, training["steps"] - 1))
    text = folder / "text"
    if not text.exists():
        text.mkdir(parents=True)
        draw = random.Random(0)
        words = ["memory", "key", "value", "reads", "writes", "forgets", "a", "the"]
        for number in range(12):
            content = " ".join(draw.choice(words) for _ in range(draw.choice((3, 40, 200))))
            (text / f"{number}.txt").write_text(content)
    recipe = folder / "recipe.yaml"
    recipe.write_text(
        yaml.safe_dump(
            {
                "model": {
                    **memory,
                    "fields": {
                        "hidden_size": 16,
                        "num_attention_heads": 1,
                        "intermediate_size": 16,
                        **({} if same else {"layer_types": list(layers)}),
                    },
                },
                "data": {
                    "train": str(text),
                    "cache": str(folder / "tokens"),
                    "validation_share": 0.1,
                },
                "training": {
                    "batch_size": 4,
                    "sequence_length": 16,
                    "memory": "document",
                    **training,
                },
                "checkpoints": {"every": every, "keep": 2},
                "evaluation": {"every": evaluate, "tokens": 100},
            }
        )
    )
    return recipe


def stream_recipe(folder: Path, *, checkpoints=None, data=None, **training) -> Path:
    """A recipe whose text is a data set of 200 short documents and seven records without one."""
    records = [{"text": f"document {number} of the set"} for number in range(200)]
    for number in (3, 8, 40, 41):
        records.insert(number, {"text": None})
    for number in (5, 6, 90):
        records.insert(number, {"text": " "})
    (folder / "set").mkdir(parents=True)
    lines = "\n".join(json.dumps(record) for record in records)
    (folder / "set" / "a.jsonl").write_text(lines)
    recipe = write_recipe(folder, **training)
    content = yaml.safe_load(recipe.read_text())
    cache = str(folder / "tokens")
    content["data"] = {"dataset": {"name": str(folder / "set")}, "cache": cache, **(data or {})}
    content["checkpoints"] = checkpoints or content["checkpoints"]
    recipe.write_text(yaml.safe_dump(content))
    return recipe


def train(recipe: Path, out: Path, environment: dict[str, str] | None = None) -> None:
    """Train to the end, or raise; to be the target of a process."""
    os.environ.update(environment or {})
    import torch

    from fourfold.training.recipe import read_recipe
    from fourfold.training.trainer import Trainer

    torch.set_num_threads(1)
    Trainer(read_recipe(recipe), out).run()


def start(recipe: Path, out: Path):
    """A process that trains."""
    process = CONTEXT.Process(target=train, args=(recipe, out))
    process.start()
    return process


def start_together(recipe: Path, out: Path, processes: int):
    """Processes that train one model."""
    return together(processes, train, recipe, out)


def together(processes: int, target, *arguments):
    """Processes that know of each other, as ``accelerate launch`` and torchrun start them; each is
    given its environment as the last argument."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shared = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(processes),
        "LOCAL_WORLD_SIZE": str(processes),
        "ACCELERATE_USE_CPU": "true",
    }
    started = []
    for rank in range(processes):
        environment = shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        process = CONTEXT.Process(target=target, args=(*arguments, environment))
        process.start()
        started.append(process)
    return started

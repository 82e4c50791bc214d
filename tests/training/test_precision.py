"""In bfloat16 products are rounded; weights and what memories rewrite are not."""

from __future__ import annotations

import json
import os
import shutil

import pytest
import torch
from runs import CONTEXT, together, write_recipe
from safetensors.torch import load_file

from fourfold.layers import LSTM
from fourfold.training.log import read_log

REWRITTEN = {
    "atpm": ["memory"],
    "gated_deltanet": ["memory"],
    "lstm": ["hidden", "cell"],
    "mosaic_v1": ["recurrence"],
}
"""What memories rewrite at every token."""

ENGINES = {
    "alone": {},
    "DDP": {},
    "FSDP2": {
        "ACCELERATE_USE_FSDP": "true",
        "FSDP_VERSION": "2",
        "FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP",
        "FSDP_TRANSFORMER_CLS_TO_WRAP": "FourfoldBlock",
    },
}


def train_and_look(engine, recipe, out, environment):
    """Train, and write down of which types weights in use, products and states were."""
    os.environ.update(environment | ENGINES[engine])
    from accelerate import PartialState
    from accelerate.utils import DistributedType
    from torch.distributed.tensor import DTensor

    from fourfold.training.recipe import read_recipe
    from fourfold.training.trainer import Trainer

    torch.set_num_threads(1)
    if engine == "FSDP2":
        # Accelerate shards on accelerators only; here it takes CPUs for such.
        PartialState(cpu=True)
        PartialState._shared_state["distributed_type"] = DistributedType.MULTI_GPU
    trainer = Trainer(read_recipe(recipe), out)
    weights, products = set(), set()

    def look(module, arguments, product):
        weights.add(str(module.weight.dtype))
        products.add(str(product.dtype))

    for module in trainer.plain_model.modules():
        if isinstance(module, torch.nn.Linear):
            module.register_forward_hook(look)
    parameters = list(trainer.plain_model.parameters())
    trainer.run()
    found = {
        "sharded": all(isinstance(parameter, DTensor) for parameter in parameters),
        "masters": sorted({str(parameter.dtype) for parameter in parameters}),
        "weights": sorted(weights),
        "products": sorted(products),
        "states": {name: str(x.dtype) for name, x in trainer.cache.named_tensors().items()},
    }
    number = environment.get("RANK", "0")
    (out / f"found-{number}.json").write_text(json.dumps(found))


def look_at(recipe, out, engine):
    if engine == "alone":
        processes = [CONTEXT.Process(target=train_and_look, args=(engine, recipe, out, {}))]
        processes[0].start()
    else:
        processes = together(2, train_and_look, engine, recipe, out)
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * len(processes)
    return json.loads((out / f"found-{len(processes) - 1}.json").read_text())


@pytest.mark.parametrize("engine", ENGINES)
def test_half_precision_rounds_products_alone(engine, tmp_path):
    recipe = write_recipe(tmp_path, layers=REWRITTEN, steps=4, precision="bfloat16")
    found = look_at(recipe, tmp_path / "out", engine)
    assert found["sharded"] == (engine == "FSDP2")
    assert found["masters"] == found["weights"] == ["torch.float32"]
    assert found["products"] == ["torch.bfloat16"]
    for block, names in enumerate(REWRITTEN.values()):
        for name in names:
            assert found["states"][f"layers.{block}.{name}"] == "torch.float32", names


@pytest.mark.parametrize(("precision", "close"), [("float32", 1e-5), ("bfloat16", 1e-3)])
def test_a_sharded_run_does_and_keeps_what_one_process_does(precision, close, tmp_path):
    recipe = write_recipe(tmp_path, steps=6, every=3, accumulation=2, precision=precision)
    alone, sharded = tmp_path / "alone", tmp_path / "FSDP2"
    look_at(recipe, alone, "alone")
    look_at(recipe, sharded, "FSDP2")
    whole = read_log(sharded / "log.csv")
    for one, other in zip(read_log(alone / "log.csv"), whole, strict=True):
        for name in ("loss", "gradient_norm"):
            assert float(other[name]) == pytest.approx(float(one[name]), rel=close)
    # The last checkpoint, which comes after a validation.
    for name in ("model", "optimizer"):
        path = f"checkpoints/step-00000006/{name}.safetensors"
        one, other = load_file(alone / path), load_file(sharded / path)
        assert one.keys() == other.keys()
        for key, tensor in one.items():
            torch.testing.assert_close(other[key], tensor, rtol=10 * close, atol=close)
    shutil.rmtree(sharded / "checkpoints" / "step-00000006")
    (sharded / "result.json").unlink()
    look_at(recipe, sharded, "FSDP2")
    for one, other in zip(whole, read_log(sharded / "log.csv"), strict=True):
        assert one | {"seconds": ""} == other | {"seconds": ""}


def test_an_lstm_under_autocast_computes_as_without():
    layer = LSTM(hidden_size=8)
    x = torch.randn(2, 5, 8)
    with torch.autocast("cpu", torch.bfloat16):
        y, state = layer(x)
        again, _ = layer(x.bfloat16(), state.map(torch.Tensor.bfloat16))
    wanted, after = layer(x)
    assert again.dtype == y.dtype == torch.float32
    assert torch.equal(y, wanted)
    assert torch.equal(state.cell, after.cell)

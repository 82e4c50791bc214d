"""What a run changes as it goes: weights, the optimiser's state, random numbers.

Tensors are whole even where processes share them, and named as the model's parameters are, so that
a file says what it holds and fits any number of processes.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim import Optimizer

from fourfold.models import FourfoldCache, FourfoldForCausalLM


def own_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """Those that the optimiser has, by name, tied ones once.

    What FSDP2 has gathered to read without a backward pass, as validation does, would stand in the
    place of the shards.
    """
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.reshard()
    return dict(model.named_parameters())


def model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """All parameters and buffers on the CPU, tied ones once."""
    named = [*own_parameters(model).items(), *model.named_buffers()]
    return {name: _whole(tensor) for name, tensor in named}


@torch.no_grad()
def load_model_tensors(model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Take over what ``model_tensors`` gave.

    Raises:
        ValueError: other names, or another shape.
    """
    named = own_parameters(model) | dict(model.named_buffers())
    if named.keys() != tensors.keys():
        other = ", ".join(sorted(named.keys() ^ tensors.keys()))
        raise ValueError(f"The weights are those of another model: it differs in {other}.")
    for name, parameter in named.items():
        parameter.copy_(_like(parameter, tensors[name]))


def optimizer_tensors(model: nn.Module, optimizer: Optimizer) -> dict[str, Tensor]:
    """The optimiser's state, "exp_avg/model.norm.weight" and so on."""
    return {
        f"{key}/{name}": _whole(value)
        for name, parameter in own_parameters(model).items()
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def load_optimizer_tensors(
    model: nn.Module, optimizer: Optimizer, tensors: dict[str, Tensor]
) -> None:
    """Take over what ``optimizer_tensors`` gave."""
    parameters = own_parameters(model)
    for full_name, tensor in tensors.items():
        key, _, name = full_name.partition("/")
        parameter = parameters[name]
        value = _like(parameter, tensor) if tensor.shape == parameter.shape else tensor
        optimizer.state[parameter][key] = value.to(parameter.device)


def load_memory(
    model: FourfoldForCausalLM, cache: FourfoldCache, tensors: dict[str, Tensor]
) -> None:
    """Let ``cache`` hold ``tensors``, named as ``FourfoldCache.named_tensors`` names them."""
    for index, layer in enumerate(model.memories()):
        empty = layer.initial_state(0, dtype=model.dtype)
        cache.states[index] = empty.with_tensors(
            {
                name: tensors[f"layers.{index}.{name}"].to(model.device)
                for name in empty.named_tensors()
            }
        )


def random_state() -> dict[str, Any]:
    """The state of all random numbers of this process; JSON can hold it."""
    numpy = np.random.get_state(legacy=False)
    assert isinstance(numpy, dict)
    key = numpy["state"]["key"].tolist()
    state = {
        "torch": torch.get_rng_state().tolist(),
        "numpy": numpy | {"state": numpy["state"] | {"key": key}},
        "python": random.getstate(),
    }
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state().tolist()
    return state


def load_random_state(state: dict[str, Any]) -> None:
    """Take over what ``random_state`` gave."""
    torch.set_rng_state(torch.tensor(state["torch"], dtype=torch.uint8))
    numpy = state["numpy"]
    key = np.array(numpy["state"]["key"], dtype=np.uint32)
    np.random.set_state(numpy | {"state": numpy["state"] | {"key": key}})
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(torch.tensor(state["cuda"], dtype=torch.uint8))


def _whole(tensor: Tensor) -> Tensor:
    tensor = tensor.detach()
    return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).cpu()


def _like(pattern: Tensor, tensor: Tensor) -> Tensor:
    """``tensor`` sharded as ``pattern`` is.

    Raises:
        ValueError: another shape.
    """
    if tensor.shape != pattern.shape:
        raise ValueError(
            f"The weights are those of another model: {tuple(tensor.shape)} in place of "
            f"{tuple(pattern.shape)}."
        )
    if isinstance(pattern, DTensor):
        return distribute_tensor(tensor.to(pattern.device), pattern.device_mesh, pattern.placements)
    return tensor

"""Contestants from libraries that need not be installed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, ClassVar

import torch
from torch import Tensor

from fourfold.benchmarks.attention import LONGEST
from fourfold.benchmarks.contestants import Contestant, Decoder, Prepared
from fourfold.benchmarks.inputs import Inputs
from fourfold.benchmarks.recurrences import GATED_DELTANET_INPUTS, Recurrence
from fourfold.benchmarks.shapes import Shape

TITANS_CHUNK = 64


def flash_linear_attention(device: str) -> Recurrence:
    """Gated DeltaNet of flash-linear-attention, Triton kernels for GPUs."""
    missing = None
    if torch.device(device).type != "cuda":
        missing = f"its kernels run on a GPU only, and this run is on {device}."
    elif _imported("fla") is None:
        missing = "fla is not installed."

    def read(
        inputs: Inputs, state: Tensor | None, keep: bool, *, function: str
    ) -> tuple[Tensor, Tensor | None]:
        return getattr(import_module("fla.ops.gated_delta_rule"), function)(
            q=inputs["q"],
            k=inputs["s"],
            v=inputs["e"],
            g=inputs["log_alpha"],
            beta=inputs["beta_v"],
            scale=1.0,
            initial_state=state,
            output_final_state=keep,
        )

    return Recurrence(
        name="flash-linear-attention Gated DeltaNet",
        note="decodes with fused_recurrent_gated_delta_rule, as its layers do.",
        missing=missing,
        rule="Gated DeltaNet",
        leaves=GATED_DELTANET_INPUTS,
        read=partial(read, function="chunk_gated_delta_rule"),
        read_one=partial(read, function="fused_recurrent_gated_delta_rule"),
    )


@dataclass(frozen=True)
class Titans(Contestant):
    """titans-pytorch's NeuralMemory."""

    name: str = "titans-pytorch NeuralMemory"
    note: str = (
        "a different rule (gradient descent with momentum on a memory that is itself a model, here "
        f"one D × D matrix a head, in chunks of {TITANS_CHUNK}), and a whole layer with its "
        "projections and norms; width H · D, gradients of its input and its weights."
    )
    longest: int | None = LONGEST
    why_longest: str = f"a different rule: not asked to read more than {LONGEST:,} tokens."
    cannot_decode: ClassVar[str | None] = "it is timed as a layer over whole sequences only."

    def prepare(self, inputs: Inputs, shape: Shape) -> Prepared:
        library: Any = import_module("titans_pytorch")
        dy = inputs["dy"]
        layer = library.NeuralMemory(
            dim=shape.heads * shape.columns,
            heads=shape.heads,
            dim_head=shape.columns,
            chunk_size=TITANS_CHUNK,
            default_model_kwargs={"depth": 1},
        ).to(dy)
        x = inputs["e"].detach().flatten(-2).requires_grad_()
        return Prepared(
            read=lambda: layer(x)[0].unflatten(-1, dy.shape[-2:]),
            leaves=[x, *layer.parameters()],
            dy=dy,
        )

    def decoder(
        self, tokens: Sequence[Inputs], state: Tensor | None, seen: int, room: int
    ) -> Decoder:
        raise NotImplementedError(self.cannot_decode)


def titans() -> Titans:
    """NeuralMemory, if it is installed."""
    there = _imported("titans_pytorch") is not None
    return Titans(missing=None if there else "titans-pytorch is not installed.")


def _imported(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        return None

"""Contestants that carry a state: our two rules, and the same rule as others write it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers.models.qwen3_next import modeling_qwen3_next

from fourfold.benchmarks.contestants import Contestant, Decoder, Prepared, Read
from fourfold.benchmarks.inputs import Inputs
from fourfold.benchmarks.shapes import Shape
from fourfold.ops import atpm, delta_rule
from fourfold.ops.kernels import kernels_for

ATPM_FUSED = "ATPM fused"
GATED_DELTANET_FUSED = "Gated DeltaNet fused"
TRANSFORMERS = "transformers Gated DeltaNet (chunked)"

ATPM_INPUTS = ("q", "s", "k", "v", "b", "log_alpha", "beta_k", "beta_v", "rho", "lam")
GATED_DELTANET_INPUTS = ("q", "s", "e", "log_alpha", "beta_v")


def read_atpm(
    inputs: Inputs, state: Tensor | None, keep: bool, *, form: str
) -> tuple[Tensor, Tensor | None]:
    """Our ATPM."""
    given: dict[str, Any] = {name: inputs[name] for name in ATPM_INPUTS}
    return atpm(**given, initial_state=state, output_final_state=keep, form=form)


def read_gated_deltanet(
    inputs: Inputs, state: Tensor | None, keep: bool, *, form: str
) -> tuple[Tensor, Tensor | None]:
    """Our Gated DeltaNet: it writes where it reads, with one strength."""
    return delta_rule(
        q=inputs["q"],
        s=inputs["s"],
        d=inputs["s"],
        e=inputs["e"],
        log_alpha=inputs["log_alpha"],
        erase=inputs["beta_v"],
        write=inputs["beta_v"],
        initial_state=state,
        output_final_state=keep,
        form=form,
    )


def read_transformers(
    inputs: Inputs, state: Tensor | None, keep: bool, *, function: Callable[..., Any]
) -> tuple[Tensor, Tensor | None]:
    """Gated DeltaNet of transformers; it divides the query by √S besides."""
    return function(
        query=inputs["q"],
        key=inputs["s"],
        value=inputs["e"],
        g=inputs["log_alpha"],
        beta=inputs["beta_v"],
        initial_state=state,
        output_final_state=keep,
    )


@dataclass(frozen=True, kw_only=True)
class Recurrence(Contestant):
    """A memory of fixed size.

    Attributes:
        rule: whose state it carries; contestants of one rule can go on from each other's.
        leaves: names of the inputs that it reads.
        read: any number of tokens.
        read_one: a single token; ``read`` if None.
    """

    rule: str
    leaves: tuple[str, ...]
    read: Read
    read_one: Read | None = None

    def prepare(self, inputs: Inputs, shape: Shape) -> Prepared:
        return Prepared(
            read=lambda: self.read(inputs, None, False)[0],
            leaves=[inputs[name] for name in self.leaves],
            dy=inputs["dy"],
        )

    def decoder(
        self, tokens: Sequence[Inputs], state: Tensor | None, seen: int, room: int
    ) -> Decoder:
        return StateDecoder(self.read_one or self.read, tokens, state)


class StateDecoder(Decoder):
    """Carries a state from token to token."""

    def __init__(self, read: Read, tokens: Sequence[Inputs], state: Tensor | None) -> None:
        self.read, self.tokens, self.state = read, tokens, state
        self.next = 0

    @property
    def nbytes(self) -> int:
        return 0 if self.state is None else self.state.numel() * self.state.element_size()

    def step(self) -> None:
        _, self.state = self.read(self.tokens[self.next % len(self.tokens)], self.state, True)
        self.next += 1


def own_recurrences(device: str) -> list[Recurrence]:
    """ATPM and Gated DeltaNet in both forms."""
    without = None
    if not kernels_for(torch.device(device)):
        without = f"there are no kernels of ours for {device}."
    rules = (
        ("ATPM", ATPM_INPUTS, read_atpm),
        ("Gated DeltaNet", GATED_DELTANET_INPUTS, read_gated_deltanet),
    )
    return [
        Recurrence(
            name=f"{rule} {form}",
            rule=rule,
            leaves=leaves,
            read=partial(read, form=form),
            missing=without if form == "fused" else None,
        )
        for rule, leaves, read in rules
        for form in ("fused", "chunked")
    ]


def transformers_recurrence() -> Recurrence:
    """Gated DeltaNet as transformers computes it where no other library is installed."""
    # The decorated functions would dispatch to that library.
    chunked = modeling_qwen3_next.torch_chunk_gated_delta_rule.__wrapped__
    one_token = modeling_qwen3_next.torch_recurrent_gated_delta_rule.__wrapped__
    return Recurrence(
        name=TRANSFORMERS,
        note="decodes with torch_recurrent_gated_delta_rule, as its models do.",
        rule="Gated DeltaNet",
        leaves=GATED_DELTANET_INPUTS,
        read=partial(read_transformers, function=chunked),
        read_one=partial(read_transformers, function=one_token),
    )

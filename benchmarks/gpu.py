"""Check and time the GPU kernels on a GPU: ``python benchmarks/gpu.py [--output FILE]``.

Errors against the float64 token loop come first, then a training step of a model, then times of
the operators, turn by turn. All of it goes to one JSON file; what there was no time for says so.
Exit status 0 if all is well, 1 if a check failed, 2 without a GPU.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import accumulate
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor

from fourfold.benchmarks.machine import versions
from fourfold.models import FourfoldConfig, FourfoldForCausalLM
from fourfold.models.matching import match_parameters
from fourfold.ops import delta_rule
from fourfold.results import provenance, write_result

SECONDS = 480
"""What a run may take. Nothing new is begun when ``RESERVE`` of it is left."""

RESERVE = 100
"""Others tune themselves on the first call, which takes about so long and cannot be stopped."""

TOLERANCES = {torch.float32: 1e-4, torch.bfloat16: 1e-2}
ROUNDS = 11
TURN_MS = 10.0
STREAMS = ("q", "s", "d", "e")
INPUTS = (*STREAMS, "log_alpha", "erase", "write")


@dataclass(frozen=True)
class Shape:
    """B rows of T tokens, H heads, addresses of size S, column blocks; or packed ``lengths``."""

    rows: int
    tokens: int
    heads: int
    address: int
    blocks: tuple[int, ...]
    lengths: tuple[int, ...] | None = None

    @property
    def columns(self) -> int:
        return sum(self.blocks)

    @property
    def edges(self) -> list[int]:
        return [0, *accumulate(self.blocks)]

    @property
    def cu_seqlens(self) -> Tensor | None:
        if self.lengths is None:
            return None
        return torch.tensor([0, *accumulate(self.lengths)], device="cuda")

    def record(self) -> dict[str, Any]:
        named = dict(
            B=self.rows, T=self.tokens, H=self.heads, S=self.address, D=self.columns,
            blocks=list(self.blocks),
        )  # fmt: skip
        return named if self.lengths is None else named | {"lengths": list(self.lengths)}


VIEWS = Shape(1, 130, 2, 128, (64, 192))
PACKED = Shape(1, 300, 2, 100, (30, 0, 40), lengths=(0, 1, 150, 0, 129, 20))
CHECKED = {
    torch.float32: (VIEWS, PACKED),
    torch.bfloat16: (VIEWS, PACKED, Shape(2, 200, 3, 64, (128,)), Shape(1, 100, 2, 256, (256,))),
}
LARGE = Shape(8, 2048, 16, 128, (128,))
TIMED = (
    LARGE,
    Shape(4, 4096, 8, 128, (256,)),
    Shape(1, 16384, 8, 64, (128,)),
    Shape(1, 65536, 4, 64, (128,)),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", default="results/gpu.json")
    output = parser.parse_args().output
    if not torch.cuda.is_available():
        print("This benchmark needs a GPU that torch can use, and there is none.", file=sys.stderr)
        return 2
    began = time.monotonic()
    result: dict[str, Any] = {}

    def seconds_left() -> float:
        return SECONDS - RESERVE - (time.monotonic() - began)

    def save() -> None:
        found = provenance()
        found["command"] = ["python", *sys.argv]
        found["versions"] |= versions(("triton", "flash-linear-attention", "fla-core"))
        found["versions"]["cuda"] = torch.version.cuda
        found["machine"]["gpu"] = torch.cuda.get_device_name()
        write_result(output, found | {"seconds": time.monotonic() - began} | result)

    torch.manual_seed(0)
    checks = result["checks"] = []
    for dtype, shapes in CHECKED.items():
        for shape in shapes:
            checks.append(check(shape, dtype))
            print(f"{checks[-1]['dtype']} {shape}: {checks[-1]['errors']}", flush=True)
    checks.append(check_large(LARGE))
    print(f"large: {checks[-1]}", flush=True)
    result["passed"] = all(entry["passed"] for entry in checks)
    save()
    # "auto" may not choose the kernels on a GPU yet; the second step is made to.
    chosen = {
        "auto": nullcontext(),
        "kernels": patch("fourfold.ops.fused.kernels_for", lambda device: True),
    }
    steps = result["training_steps"] = {}
    for form, choice in chosen.items():
        try:
            with choice:
                steps[form] = training_step()
        except Exception as error:  # the times that follow are worth having all the same
            steps[form] = {"not_timed": f"{type(error).__name__}: {str(error)[:300]}"}
        print(form, steps[form], flush=True)
        save()
    result["times"] = []
    for shape in TIMED:
        result["times"].append(time_shape(shape, seconds_left))
        print(result["times"][-1], flush=True)
        save()
    return 0 if result["passed"] else 1


def random_inputs(
    shape: Shape, dtype: torch.dtype, *, one_address: bool = False
) -> dict[str, Tensor]:
    """Inputs of the rule; with ``one_address`` it writes where it reads, and as much as it erases.

    Returns:
        q, s, d (B, T, H, S) and e (B, T, H, D) in ``dtype``; log_alpha (B, T, H), erase and write
        (B, T, H, G) in float32.
    """
    stem = (shape.rows, shape.tokens, shape.heads)

    def normal(size: int) -> Tensor:
        return torch.randn(*stem, size, device="cuda")

    s = F.normalize(normal(shape.address), dim=-1)
    d = s + 0.3 * F.normalize(normal(shape.address), dim=-1)
    erase = normal(len(shape.blocks)).sigmoid()
    inputs = dict(
        q=F.normalize(normal(shape.address), dim=-1),
        s=s,
        d=s if one_address else d,
        e=normal(shape.columns),
    )
    inputs = {name: x.to(dtype) for name, x in inputs.items()}
    write = erase if one_address else normal(len(shape.blocks)).sigmoid()
    log_alpha = -0.1 * normal(1).squeeze(-1).sigmoid()
    return inputs | dict(log_alpha=log_alpha, erase=erase, write=write)


def run_kernels(
    inputs: dict[str, Tensor], shape: Shape, state: Tensor | None, dy: Tensor, dfinal: Tensor | None
) -> dict[str, Tensor]:
    """y, the final state and every gradient."""
    from fourfold.ops.gpu import launch

    given = [inputs[name] for name in INPUTS]
    bounds = shape.cu_seqlens
    y, final, *kept = launch.forward(*given, shape.edges, state, bounds, True)
    gradients = launch.backward(*given, shape.edges, bounds, *kept, dy, dfinal)
    names = [f"d{name}" for name in (*INPUTS, "initial_state")]
    return {"y": y, "state": final, **dict(zip(names, gradients, strict=True))}


def check(shape: Shape, dtype: torch.dtype) -> dict[str, Any]:
    """Relative errors against the token loop in float64 on the same inputs."""
    inputs = random_inputs(shape, dtype)
    sequences = shape.rows if shape.lengths is None else len(shape.lengths)
    states = (sequences, shape.heads, shape.address, shape.columns)
    state, dfinal = torch.randn(states, device="cuda"), torch.randn(states, device="cuda")
    dy = torch.randn_like(inputs["e"])
    results = run_kernels(inputs, shape, state, dy, dfinal)

    leaves = {name: x.double().requires_grad_() for name, x in inputs.items()}
    start = state.double().requires_grad_()
    y, final = delta_rule(
        **leaves,
        initial_state=start,
        cu_seqlens=shape.cu_seqlens,
        column_blocks=shape.blocks,
        form="sequential",
    )
    gradients = torch.autograd.grad(
        (y, final), (*leaves.values(), start), (dy.double(), dfinal.double())
    )
    reference = dict(zip(results, (y, final, *gradients), strict=True))
    errors = {name: relative_error(x, reference[name]) for name, x in results.items()}
    return {
        "shape": shape.record(),
        "dtype": str(dtype).removeprefix("torch."),
        "reference": "float64 token loop",
        "errors": errors,
        "tolerance": TOLERANCES[dtype],
        "passed": max(errors.values()) <= TOLERANCES[dtype],
    }


def check_large(shape: Shape) -> dict[str, Any]:
    """bfloat16 where the whole GPU is busy: equal results run after run, and close to float32's.

    Compilers have made kernels of this kind that are right alone and race when many run.
    """
    inputs = random_inputs(shape, torch.bfloat16)
    dy = torch.randn_like(inputs["e"])
    first = run_kernels(inputs, shape, None, dy, None)
    again = (run_kernels(inputs, shape, None, dy, None) for _ in range(3))
    repeatable = all(torch.equal(x, run[name]) for run in again for name, x in first.items())
    wide = inputs | {name: inputs[name].float() for name in STREAMS}
    reference = run_kernels(wide, shape, None, dy.float(), None)
    errors = {name: relative_error(x, reference[name]) for name, x in first.items()}
    return {
        "shape": shape.record(),
        "dtype": "bfloat16",
        "reference": "these kernels in float32, which use no tensor cores",
        "errors": errors,
        "tolerance": TOLERANCES[torch.bfloat16],
        "repeatable": repeatable,
        "passed": repeatable and max(errors.values()) <= TOLERANCES[torch.bfloat16],
    }


def relative_error(result: Tensor, reference: Tensor) -> float:
    """Root mean square of the difference over that of the reference; infinite if not finite."""
    difference = (result.double() - reference.double()).square().mean().sqrt()
    error = float(difference / reference.double().square().mean().sqrt().clamp_min(1e-30))
    return error if error == error else float("inf")


@dataclass(frozen=True)
class Contestant:
    """An operator with its inputs at hand: ``run(True)`` also takes gradients; both return y."""

    run: Callable[[bool], Tensor]
    note: str = ""


def contestants(shape: Shape) -> dict[str, Contestant]:
    """All of one rule, Gated DeltaNet's, on the same inputs; but for the last, which is ATPM's."""
    inputs = random_inputs(shape, torch.bfloat16, one_address=True)
    dy = torch.randn_like(inputs["e"])
    q, s, _, e, log_alpha, strength, _ = (inputs[name] for name in INPUTS)
    strength = strength.squeeze(-1)
    found = {
        "fourfold kernels": Contestant(partial(time_kernels, inputs, shape, dy)),
        "fourfold chunked": Contestant(
            partial(
                differentiate,
                lambda q, s, e, g, b: delta_rule(
                    q=q, s=s, d=s, e=e, log_alpha=g, erase=b, write=b, form="chunked"
                )[0],
                (q, s, e, log_alpha, strength),
                dy,
            ),
            note="PyTorch; bfloat16 inputs are widened to float32.",
        ),
    }
    if find_spec("fla"):
        from fla.ops.comba import chunk_comba
        from fla.ops.gated_delta_rule import chunk_gated_delta_rule

        found["fla chunk_gated_delta_rule"] = Contestant(
            partial(
                differentiate,
                lambda q, s, e, g, b: chunk_gated_delta_rule(q, s, e, g, b, scale=1.0)[0],
                (q, s, e, log_alpha, strength),
                dy,
            )
        )
        # Its predicted entity is that of the state before the decay, which so goes to p.
        decayed = (s * log_alpha.exp()[..., None]).to(s.dtype)
        found["fla chunk_comba"] = Contestant(
            partial(
                differentiate,
                lambda q, s, e, p, g, b: chunk_comba(q, s, e, p, g, b, scale=1.0)[0],
                (q, s, e, decayed, log_alpha, strength),
                dy,
            ),
            note="erases at an address of its own, p = α s here, rounded to bfloat16.",
        )
    quarter = shape.columns // 4
    views = Shape(
        shape.rows, shape.tokens, shape.heads, shape.address, (quarter, shape.columns - quarter)
    )
    found["fourfold kernels, ATPM"] = Contestant(
        partial(time_kernels, random_inputs(views, torch.bfloat16), views, dy),
        note="another write address and two column blocks.",
    )
    return found


def time_kernels(inputs: dict[str, Tensor], shape: Shape, dy: Tensor, gradients: bool) -> Tensor:
    from fourfold.ops.gpu import launch

    if gradients:
        return run_kernels(inputs, shape, None, dy, None)["y"]
    given = [inputs[name] for name in INPUTS]
    return launch.forward(*given, shape.edges, None, None, False)[0]


def differentiate(
    function: Callable[..., Tensor], inputs: tuple[Tensor, ...], dy: Tensor, gradients: bool
) -> Tensor:
    leaves = [x.detach().requires_grad_(gradients) for x in inputs]
    y = function(*leaves)
    if gradients:
        torch.autograd.grad(y, leaves, dy)
    return y.detach()


def time_shape(shape: Shape, seconds_left: Callable[[], float]) -> dict[str, Any]:
    """Milliseconds of a forward pass, and of forward and backward, of everyone in turn."""
    entry: dict[str, Any] = {"shape": shape.record(), "dtype": "bfloat16", "contestants": {}}
    taking_part: dict[str, Contestant] = {}
    outputs: dict[str, Tensor] = {}
    for name, contestant in contestants(shape).items():
        row = entry["contestants"][name] = {"note": contestant.note}
        if seconds_left() < 0:
            row["not_timed"] = "no time was left."
            continue
        began = time.monotonic()
        try:
            for gradients in (True, False):
                outputs[name] = contestant.run(gradients)
            torch.cuda.synchronize()
        except Exception as error:  # whatever somebody else's kernels raise
            torch.cuda.empty_cache()
            row["not_timed"] = f"{type(error).__name__}: {str(error)[:300]}"
            continue
        row["first_call_seconds"] = time.monotonic() - began
        taking_part[name] = contestant
    own = "fourfold kernels"
    for name, y in outputs.items():
        if name != own and "ATPM" not in name and own in outputs:
            row = entry["contestants"][name]
            row["difference_from_fourfold_kernels"] = relative_error(y, outputs[own])
    outputs.clear()
    for mode, gradients in (("forward", False), ("forward_backward", True)):
        turns = {name: partial(c.run, gradients) for name, c in taking_part.items()}
        for name, milliseconds in alternate(turns).items():
            low, median, high = statistics.quantiles(milliseconds, n=4, method="inclusive")
            entry["contestants"][name][mode] = {
                "median_ms": median,
                "quartiles_ms": [low, high],
                "tokens_per_second": 1e3 * shape.rows * shape.tokens / median,
            }
    torch.cuda.empty_cache()
    return entry


def alternate(turns: dict[str, Callable[[], object]]) -> dict[str, list[float]]:
    """Milliseconds of a call, ``ROUNDS`` of each, A B C, A B C, ..., by the GPU's own clock."""
    calls = {}
    for name, turn in turns.items():
        milliseconds(turn, 2)
        calls[name] = max(1, round(TURN_MS / milliseconds(turn, 1)))
    taken: dict[str, list[float]] = {name: [] for name in turns}
    for _ in range(ROUNDS):
        for name, turn in turns.items():
            taken[name].append(milliseconds(turn, calls[name]))
    return taken


def milliseconds(turn: Callable[[], object], calls: int) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(calls):
        turn()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / calls


def training_step(rows: int = 8, tokens: int = 2048, steps: int = 5) -> dict[str, Any]:
    """A step of a model of 200 million parameters, mixed precision, on as many rows as fit."""
    config = FourfoldConfig(
        vocab_size=32_000,
        hidden_size=1024,
        num_hidden_layers=12,
        num_attention_heads=8,
        head_dim=128,
    )
    config = match_parameters(config, 200_000_000)
    model = FourfoldForCausalLM(config).cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    entry: dict[str, Any] = {
        "parameters": model.num_parameters(),
        "layers": config.layer_types,
        "head_dim": config.head_dim,
        "columns": [config.key_view_dim, config.value_dim - config.key_view_dim],
        "precision": "float32 weights, autocast to bfloat16",
        "tokens_per_row": tokens,
    }

    def step(batch: Tensor) -> None:
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(batch, labels=batch).loss
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    while rows:
        batch = torch.randint(config.vocab_size, (rows, tokens), device="cuda")
        with freed():
            try:
                for _ in range(2):
                    step(batch)
                torch.cuda.reset_peak_memory_stats()
                taken = [milliseconds(partial(step, batch), 1) for _ in range(steps)]
            except torch.cuda.OutOfMemoryError:
                rows //= 2
                continue
        median = statistics.median(taken)
        return entry | {
            "rows": rows,
            "median_ms": median,
            "range_ms": [min(taken), max(taken)],
            "tokens_per_second": 1e3 * rows * tokens / median,
            "peak_memory_bytes": torch.cuda.max_memory_allocated(),
        }
    return entry | {"not_timed": "not even one row fits in memory."}


@contextmanager
def freed() -> Iterator[None]:
    """Give back at the end what the allocator holds."""
    try:
        yield
    finally:
        torch.cuda.empty_cache()


if __name__ == "__main__":
    sys.exit(main())

"""What is particular to the fused form: registration, threads, types, compilation and its cache."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from inputs import (
    assert_close,
    atpm_inputs,
    delta_inputs,
    leaves,
    random_state,
    relative_error,
    run,
)

from fourfold.ops import atpm, delta_rule, without_kernels
from fourfold.ops.cpu import compiled, threads
from fourfold.ops.cpu.threads import worker_count


def child(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )


@pytest.mark.parametrize("packed", (False, True))
def test_registered_operators_keep_torchs_rules(packed):
    tensors = [x[:1] for x in delta_inputs(T=20).values()]
    tensors[-2:] = [x[..., None] for x in tensors[-2:]]
    tensors = [x.detach().requires_grad_() for x in tensors]
    offsets = torch.tensor([0, 5, 5, 20]) if packed else None
    state = random_state(N=3 if packed else 1, D=6)
    torch.library.opcheck(torch.ops.fourfold.delta_rule, (*tensors, state, offsets, [0, 6], True))
    inputs = [x.detach()[:1].requires_grad_() for x in atpm_inputs().values()]
    q, s, _, _, b, _, _, _, rho, lam = inputs
    torch.library.opcheck(torch.ops.fourfold.addresses, (q, s, b, rho, lam))


def test_compiled_whole_it_gives_the_same_gradients():
    inputs, state = atpm_inputs(T=70), random_state()

    def function(**options):
        return atpm(**options, form="fused")

    whole = torch.compile(function, backend="aot_eager", fullgraph=True)
    assert_close(run(whole, inputs, state), run(function, inputs, state), 1e-12)


def test_auto_means_fused_unless_kernels_are_switched_off():
    inputs = delta_inputs(T=20, dtype=torch.float32)

    def name() -> str:
        y, _ = delta_rule(**inputs)
        return str(y.grad_fn)

    assert "fourfold_delta_rule" in name()
    with without_kernels():
        assert "fourfold_delta_rule" not in name()


def test_results_do_not_depend_on_the_number_of_threads():
    inputs = atpm_inputs(B=3, T=300, H=3, S=32, Dk=20, Dv=30, dtype=torch.float32)
    state = leaves({"E": random_state(N=3, H=3, S=32, D=50)}, torch.float32)["E"]
    before = torch.get_num_threads()
    results = []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            assert worker_count(100, 1 << 40) == count
            results.append(run(atpm, inputs, state, form="fused"))
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        for name, expected in results[0].items():
            assert torch.equal(other[name], expected), name


def test_without_torchs_openmp_python_threads_do_the_work(monkeypatch):
    inputs = atpm_inputs(B=4, T=200, S=16, Dk=8, Dv=8)
    expected = run(atpm, inputs, form="fused")
    monkeypatch.setattr(threads, "_openmp", lambda: None)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        results = run(atpm, inputs, form="fused")
    finally:
        torch.set_num_threads(before)
    for name, value in expected.items():
        assert torch.equal(results[name], value), name


def test_little_work_wakes_no_thread():
    assert worker_count(100, 1000) == 1
    assert worker_count(1, 1 << 40) == 1


def test_many_python_threads_may_call_at_once():
    inputs = {name: x.detach() for name, x in atpm_inputs(T=200, S=16, Dk=8, Dv=8).items()}
    expected, _ = atpm(**inputs, form="sequential")
    before, errors = torch.get_num_threads(), []

    def call() -> None:
        torch.set_num_threads(2)
        for _ in range(20):
            y, _ = atpm(**inputs, form="fused")
            errors.append(float((y - expected).abs().max()))

    try:
        callers = [threading.Thread(target=call) for _ in range(4)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
    finally:
        torch.set_num_threads(before)
    assert len(errors) == 80
    assert max(errors) < 1e-9


def test_bfloat16_is_read_and_written_as_it_is():
    inputs = delta_inputs(T=100, S=20, D=37, dtype=torch.float32)
    inputs |= leaves({name: inputs[name] for name in "qsde"}, torch.bfloat16)
    state = leaves({"E": random_state(S=20, D=37)}, torch.float32)["E"]
    reference = run(
        delta_rule, leaves(inputs, torch.float64), state.detach().double().requires_grad_()
    )
    results = run(delta_rule, inputs, state, form="fused")
    for name in ("y", "dq", "ds", "dd", "de"):
        assert results[name].dtype == torch.bfloat16
        # y's gradient is rounded on its way in.
        assert relative_error(results[name], reference[name]) < 5e-3
    assert relative_error(results["state"], reference["state"]) < 1e-5


@pytest.mark.parametrize("form", ("chunked", "fused"))
def test_gradients_at_strength_zero_are_exact(form):
    inputs = {name: x.detach() for name, x in atpm_inputs(T=40).items()}
    inputs["beta_k"][:, ::2] = 0
    inputs["beta_v"][:, ::3] = 0
    inputs = leaves(inputs, torch.float64)
    state = random_state()
    reference = run(atpm, inputs, state, form="sequential")
    assert reference["dbeta_k"][:, ::2].abs().min() > 0
    assert_close(run(atpm, inputs, state, form=form), reference, 1e-12)


@pytest.mark.parametrize(("S", "D"), ((256, 256), (100, 17), (1, 1), (130, 33)))
def test_any_size_of_state(S, D):
    inputs = delta_inputs(B=1, T=70, S=S, D=D)
    state = random_state(N=1, S=S, D=D)
    reference = run(delta_rule, inputs, state, form="sequential")
    assert_close(run(delta_rule, inputs, state, form="fused"), reference, 1e-9)


def test_a_step_allocates_nothing_that_grows():
    inputs = {name: x.detach() for name, x in atpm_inputs(B=4, T=300).items()}
    whole, final = atpm(**inputs, form="sequential")
    state, outputs = None, []
    for t in range(300):
        y, state = atpm(
            **{name: x[:, t : t + 1] for name, x in inputs.items()}, initial_state=state
        )
        assert state.untyped_storage().nbytes() == state.numel() * state.element_size()
        outputs.append(y)
    torch.testing.assert_close(torch.cat(outputs, 1), whole, rtol=0, atol=1e-9)
    torch.testing.assert_close(state, final, rtol=0, atol=1e-9)


@pytest.mark.parametrize("without", ("avx512", "avx"))
def test_processors_with_narrower_vectors_get_the_same(without, tmp_path):
    code = f"""
import sys
import llvmlite.binding
import torch
sys.path.insert(0, {str(Path(__file__).parent)!r})
here = llvmlite.binding.get_host_cpu_features()
lacking = type(here)((name, has and not name.startswith({without!r})) for name, has in here.items())
llvmlite.binding.get_host_cpu_features = lambda: lacking
from inputs import assert_close, delta_inputs, leaves, random_state, run
from fourfold.ops import delta_rule
inputs, state = delta_inputs(T=70, S=20, D=37), random_state(S=20, D=37)
reference = run(delta_rule, inputs, state, form="sequential")
narrow = leaves(inputs, torch.float32), leaves(dict(E=state), torch.float32)["E"]
assert_close(run(delta_rule, *narrow, form="fused"), reference, 1e-5)
from fourfold.ops.cpu import vectors
assert not lacking.get({without!r} + "f" * ({without!r} == "avx512"))
print(vectors.REGISTERS)
"""
    registers = child(code, NUMBA_CACHE_DIR=str(tmp_path)).stdout
    if platform.machine() == "x86_64":
        assert int(registers) == 16


def test_importing_fourfold_loads_no_compiler():
    child("import fourfold, sys; assert not {'numba', 'llvmlite'} & set(sys.modules)")


def test_compilation_is_announced_once_and_kept_for_the_next_process(tmp_path):
    code = """
import torch
from fourfold.ops import delta_rule
x = torch.ones(1, 2, 1, 3)
g = torch.zeros(1, 2, 1, 1)
for dtype in (torch.float32, torch.float64):
    rule = dict(q=x, s=x, d=x, e=x, log_alpha=g[..., 0], erase=g, write=g + 1)
    y, _ = delta_rule(**{name: v.to(dtype) for name, v in rule.items()}, column_blocks=(3,))
    assert y[0, :, 0, 0].tolist() == [3, 6]
"""
    announced = "compiles its CPU kernels"
    first = child(code, NUMBA_CACHE_DIR=str(tmp_path))
    assert first.stderr.count(announced) == 1
    assert str(tmp_path) in first.stderr
    kept = sorted(tmp_path.rglob("*.nb*"))
    assert kept
    times = [path.stat().st_mtime_ns for path in kept]
    second = child(code, NUMBA_CACHE_DIR=str(tmp_path))
    assert announced not in second.stderr
    assert sorted(tmp_path.rglob("*.nb*")) == kept
    assert [path.stat().st_mtime_ns for path in kept] == times


def test_a_folder_that_cannot_be_written_to_is_no_obstacle():
    code = """
import sys
import torch
from fourfold.ops.pointwise import swiglu
assert swiglu(torch.zeros(1, 200, 60)).abs().sum() == 0
assert "fourfold.ops.cpu.gates" in sys.modules
"""
    child(code, NUMBA_CACHE_DIR="/dev/null/kernels")


def test_a_filled_folder_that_is_read_only_is_copied(tmp_path, monkeypatch):
    monkeypatch.setattr(compiled.numba.config, "CACHE_DIR", str(tmp_path))
    find = compiled.cache_folder.__wrapped__
    folder = find()
    folder.mkdir(parents=True)
    (folder / "kernel").write_text("compiled")
    assert find() == folder
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    copy = find()
    assert copy != folder
    assert (copy / "kernel").read_text() == "compiled"
    assert Path(folder, "kernel").exists()

"""Looking at a long text takes no more memory than looking at a short one, and sees the same."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_observe import model_of

from fourfold.benchmarks.memory import peak_bytes
from fourfold.observe import observe, quantities

GROWN = """
import resource, torch
from fourfold import FourfoldConfig, FourfoldForCausalLM
from fourfold.observe import observe

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

config = FourfoldConfig(vocab_size=50, hidden_size=256, num_attention_heads=4, layer_types=["atpm"])
model, ids = FourfoldForCausalLM(config).eval(), torch.randint(1, 50, (1, 2000))
with torch.no_grad():
    model(ids, logits_to_keep=1)
    before = peak()
    with observe(model, last=16):
        model(ids, logits_to_keep=1)
print("grown:", peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the resident size as Linux counts it")
def test_a_process_hardly_grows_while_it_looks():
    """Megabytes by the system's count, which tells of a heap full of holes too: state-sized
    tensors that come and go between small ones that stay cost 480 here."""
    command = [sys.executable, "-c", GROWN]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert float(done.stdout.split("grown:")[1]) < 100


@torch.no_grad()
def test_what_looking_allocates_does_not_grow_with_the_length():
    model = model_of("atpm", vocab_size=50, hidden_size=256, num_attention_heads=4)

    def added(length):
        ids = torch.ones(1, length, dtype=torch.long)

        def seen():
            with observe(model, last=16):
                model(ids, logits_to_keep=1)

        return peak_bytes(seen, "cpu") - peak_bytes(lambda: model(ids, logits_to_keep=1), "cpu")

    assert added(3072) < added(1536) + 2**22


@settings(max_examples=20, deadline=None)
@given(
    layer=st.sampled_from(["atpm", "comba"]),
    lengths=st.lists(st.integers(0, 9), min_size=1, max_size=4).filter(any),
    block=st.integers(1, 12),
    last=st.none() | st.integers(1, 20),
)
def test_blocks_of_any_size_show_the_same(layer, lengths, block, last):
    model = model_of(layer).double()
    ids = torch.randint(1, 40, (1, sum(lengths)), generator=torch.Generator().manual_seed(3))
    offsets = torch.tensor([0, *lengths]).cumsum(0)

    def traced(last=None):
        cache = model.new_cache()
        with torch.no_grad(), observe(model, last=last) as trace:
            for _ in range(2):
                model(ids, cu_seqlens=offsets, cache=cache)
        return trace

    whole = traced()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quantities, "BLOCK", block)
        patch.setattr(quantities, "LEAST", 1)
        pieces = traced(last)
    for name, values in whole.values[0].items():
        found = pieces.of(0, name)
        torch.testing.assert_close(found, values[-len(found) :], rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(
            pieces.summaries[0][name].mean, values.double().mean(0), rtol=1e-9, atol=1e-9
        )
        assert pieces.summaries[0][name].count == 2 * sum(lengths)
    assert len(pieces) == (2 * sum(lengths) if last is None else min(last, 2 * sum(lengths)))

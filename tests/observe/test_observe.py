"""What is seen of a memory is what it did, and looking changes nothing."""

from __future__ import annotations

import math

import pytest
import torch

from fourfold import FourfoldConfig, FourfoldForCausalLM
from fourfold.models.compatibility import CACHE_NAME
from fourfold.observe import QUANTITIES, Trace, intervene, observe

FAMILY = ("atpm", "gated_deltanet", "deltanet", "comba", "linear_attention")


def model_of(*layers, **settings):
    torch.manual_seed(1)
    sizes = dict(vocab_size=40, hidden_size=16, num_attention_heads=2, initializer_range=0.4)
    config = FourfoldConfig(**sizes | settings, layer_types=list(layers), eos_token_id=None)
    model = FourfoldForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def tokens(*shape):
    return torch.randint(1, 40, shape, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("layer", FAMILY)
def test_looking_changes_nothing_and_leaves_nothing_behind(layer):
    model, ids = model_of(layer, "attention", layer), tokens(2, 30)
    before = model(ids).logits
    with observe(model) as trace:
        during = model(ids).logits
    after = model(ids).logits
    assert torch.equal(before, during)
    assert torch.equal(before, after)
    assert len(trace) == 60
    assert trace.kinds == {0: layer, 2: layer}
    for memory in model.memories():
        assert "remember" not in vars(memory)
    assert not model.model._forward_pre_hooks
    assert not model.model._forward_hooks


def test_atpm_is_seen_as_its_equations_say():
    """An independent loop in float64 over what the layer makes of its input."""
    model, ids = model_of("atpm").double(), tokens(1, 25)
    layer = next(model.memories())
    with observe(model) as trace:
        model(ids)
    block = model.model.layers[0]
    x = block.memory_norm(model.model.embed_tokens(ids))
    c = layer.coordinates(x, layer.project(x, None, None)[0])
    E = torch.zeros(2, layer.address_dim, layer.columns, dtype=torch.float64)
    with torch.no_grad():
        for t in range(25):
            for h in range(2):
                alpha = c["log_alpha"][0, t, h].exp()
                s, b, rho = c["s"][0, t, h], c["b"][0, t, h], c["rho"][0, t, h]
                e = torch.cat([c["k"][0, t, h], c["v"][0, t, h]])
                k = len(c["k"][0, t, h])
                beta = torch.cat(
                    [c["beta_k"][0, t, h].expand(k), c["beta_v"][0, t, h].expand(len(e) - k)]
                )
                tau = b - s * (s @ b)
                d = s + rho * tau
                r = e - (alpha * E[h]).T @ s
                E[h] = alpha * E[h] + torch.outer(d, beta * r)
                a = d / d.norm()
                q0, lam = c["q"][0, t, h], c["lam"][0, t, h]
                q = q0 + lam * (1 - q0 @ a) * a
                wanted = {
                    "alpha": alpha,
                    "beta_k": c["beta_k"][0, t, h],
                    "beta_v": c["beta_v"][0, t, h],
                    "rho": rho,
                    "lambda": lam,
                    "tau": tau.norm(),
                    "angle": math.degrees(math.acos(min(1.0, float(s @ d / d.norm())))),
                    "residual_k": r[:k].norm(),
                    "residual_v": r[k:].norm(),
                    "recall_before": 1 - q0 @ a,
                    "recall_after": 1 - q @ a,
                    "read": (E[h].T @ q).norm(),
                    "state_norm": E[h].norm(),
                }
                assert set(wanted) == set(trace.values[0])
                for name, value in wanted.items():
                    found = float(trace.of(0, name)[t, h])
                    assert found == pytest.approx(float(value), rel=1e-6, abs=1e-9), name


@pytest.mark.parametrize("layer", FAMILY)
def test_the_state_that_is_seen_is_the_state_that_is_carried(layer):
    model, ids = model_of(layer), tokens(3, 20)
    cache = model.new_cache()
    with observe(model) as trace:
        model(ids, cache=cache)
    norms = cache.states[0].memory.flatten(-2).norm(dim=-1)
    for sequence in range(3):
        last = trace.of(0, "state_norm")[trace.sequence == sequence][-1]
        torch.testing.assert_close(last, norms[sequence], rtol=1e-4, atol=1e-5)


def by_place(trace, layer, name):
    """Values by (sequence, position)."""
    keys = zip(trace.sequence.tolist(), trace.position.tolist(), strict=True)
    return dict(zip(keys, trace.of(layer, name), strict=True))


@pytest.mark.parametrize("layer", ["atpm", "comba"])
def test_pieces_padding_and_packing_show_the_same(layer):
    model = model_of(layer, layer)
    ids, lengths = tokens(3, 12), (12, 7, 10)
    with observe(model) as alone:
        for row, length in zip(ids, lengths, strict=True):
            model(row[None, :length])
    padded, mask = torch.zeros(3, 12, dtype=torch.long), torch.zeros(3, 12, dtype=torch.long)
    for row, length in enumerate(lengths):
        padded[row, 12 - length :] = ids[row, :length]
        mask[row, 12 - length :] = 1
    with observe(model) as with_padding:
        model(padded, attention_mask=mask)
    packed = torch.cat([row[:length] for row, length in zip(ids, lengths, strict=True)])
    with observe(model) as in_one_row:
        model(packed[None], cu_seqlens=torch.tensor([0, 12, 19, 29]))
    with observe(model) as in_pieces:
        for row, length in zip(ids, lengths, strict=True):
            cache = model.new_cache()
            for piece in row[:length].split([3, 1, length - 4]):
                model(piece[None], cache=cache)
    for other in (with_padding, in_one_row, in_pieces):
        assert len(other) == 29
        assert other.values[1].keys() == alone.values[1].keys()
        for name in alone.values[1]:
            wanted, found = by_place(alone, 1, name), by_place(other, 1, name)
            assert wanted.keys() == found.keys()
            for key, value in wanted.items():
                torch.testing.assert_close(found[key], value, rtol=2e-4, atol=2e-4)
        assert by_place_tokens(other) == by_place_tokens(alone)


def by_place_tokens(trace):
    keys = zip(trace.sequence.tolist(), trace.position.tolist(), strict=True)
    return dict(zip(keys, trace.token.tolist(), strict=True))


def test_only_the_last_tokens_are_kept_but_all_are_summed_up():
    model, ids = model_of("atpm"), tokens(1, 40)
    with observe(model) as all_of_it:
        model(ids)
    cache = model.new_cache()
    with observe(model, last=8) as trace:
        for piece in ids.split(7, dim=1):
            model(piece, cache=cache)
    assert trace.position.tolist() == list(range(32, 40))
    for name, values in all_of_it.values[0].items():
        torch.testing.assert_close(trace.of(0, name), values[-8:], rtol=1e-4, atol=1e-5)
        summary = trace.summaries[0][name]
        assert summary.count == 40
        every = values.double()
        torch.testing.assert_close(summary.mean, every.mean(0), rtol=1e-4, atol=1e-5)
        spread = every.std(0, correction=0)
        torch.testing.assert_close(summary.deviation, spread, rtol=1e-3, atol=1e-5)
        torch.testing.assert_close(summary.least, every.amin(0), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(summary.greatest, every.amax(0), rtol=1e-4, atol=1e-5)


def test_a_trace_comes_back_from_its_file_and_as_a_table(tmp_path):
    model, ids = model_of("atpm", "gated_deltanet"), tokens(2, 5)
    with observe(model) as trace:
        model(ids)
    trace.label(["", "write", "", "write", ""], sequence=1)
    trace.save(tmp_path / "trace.safetensors")
    again = Trace.load(tmp_path / "trace.safetensors")
    assert again.kinds == trace.kinds
    assert again.events == trace.events
    assert torch.equal(again.token, ids.flatten())
    for layer in (0, 1):
        assert list(again.values[layer]) == list(trace.values[layer])
        for name, values in trace.values[layer].items():
            assert torch.equal(again.of(layer, name), values)
            found, wanted = again.summaries[layer][name], trace.summaries[layer][name]
            assert found.count == wanted.count
            assert torch.equal(found.mean, wanted.mean)
    table = again.columns()
    assert {len(column) for column in table.values()} == {2 * 2 * 10}
    row = [name[17] for name in table.values()]
    assert row[:7] == [1, 3, int(ids[1, 3]), "write", 0, "atpm", 1]
    assert table["rho"][17] == pytest.approx(float(trace.of(0, "rho")[8, 1]))
    assert table["beta"][17] is None
    assert table["beta"][37] == pytest.approx(float(trace.of(1, "beta")[8, 1]))


@pytest.mark.parametrize("layer", ["atpm", "comba"])
def test_what_was_read_is_kept_if_asked_for_and_comes_back_from_a_file(layer, tmp_path):
    """What goes into the norm behind the operator, of each token and head."""
    model, ids = model_of(layer, layer), tokens(2, 7)
    mask = torch.ones(2, 7, dtype=torch.long)
    mask[1, :3] = 0
    memory = list(model.memories())[1]
    finish, seen = memory.finish, []
    memory.finish = lambda y, x: seen.append(y.detach()) or finish(y, x)
    with observe(model) as without, observe(model, [1], reads=True, last=9) as trace:
        cache = model.new_cache()
        model(ids, attention_mask=mask, cache=cache)
        model(ids[:, :1], cache=cache)
    wanted = torch.cat([y.flatten(0, 1) for y in seen])
    assert wanted.shape == (13, 2, memory.columns)
    assert torch.equal(trace.reads[1], wanted[-9:])
    torch.testing.assert_close(trace.reads[1].norm(dim=-1), trace.of(1, "read"))
    assert without.reads == {}
    trace.save(tmp_path / "trace.safetensors")
    again = Trace.load(tmp_path / "trace.safetensors")
    assert list(again.reads) == [1]
    assert torch.equal(again.reads[1], trace.reads[1])


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_trace_is_a_frame_where_there_is_the_library(library):
    model = model_of("gated_deltanet")
    with observe(model) as trace:
        model(tokens(1, 4))
    try:
        __import__(library)
    except ModuleNotFoundError:
        with pytest.raises(ValueError, match=rf"pip install 'fourfold\[{library}\]'"):
            trace.frame(library)
    else:
        frame = trace.frame(library)
        assert frame.shape == (8, 7 + len(trace.values[0]))
        assert list(frame.columns)[:2] == ["sequence", "position"]
    with pytest.raises(ValueError, match="pandas or polars; got 'numpy'"):
        trace.frame("numpy")


def test_a_trajectory_around_an_event_is_the_mean_of_its_occurrences():
    model, ids = model_of("atpm"), tokens(2, 10)
    with observe(model) as trace:
        model(ids)
    trace.label(["", "", "write", *[""] * 6, "write"], sequence=0)
    trace.label(["", "", "", "", "write", *[""] * 5], sequence=1)
    mean, spread, count = trace.around("write", 0, "rho", before=1, after=2)
    assert count == 3
    rho = by_place(trace, 0, "rho")
    for step in range(-1, 3):
        places = [(0, 2 + step), (0, 9 + step), (1, 4 + step)]
        found = torch.stack([rho[place] for place in places if place in rho]).double()
        torch.testing.assert_close(mean[step + 1], found.mean(0))
        torch.testing.assert_close(spread[step + 1], found.std(0, correction=0))


def test_what_was_written_can_be_read_until_it_is_overwritten():
    """With β = 1, α = 1 and ρ = 0, a write comes back whole, and stays so under an orthogonal
    address."""
    model = model_of("gated_deltanet")
    with (
        observe(model, vectors=True) as trace,
        intervene(model, layer=0, alpha=1.0, beta=1.0),
    ):
        model(tokens(1, 9))
    score = trace.readable(0, [0, 3])
    assert score.shape == (9, 2, 2)
    assert torch.isnan(score[:3, 1]).all()
    torch.testing.assert_close(score[0, 0], torch.ones(2), rtol=0, atol=1e-5)
    torch.testing.assert_close(score[3, 1], torch.ones(2), rtol=0, atol=1e-5)
    rows = trace.rows[0]
    overlap = (rows.s[0, 0] * rows.s[0, 1]).sum(-1).abs()
    assert ((score[1, 0] < 0.999) == (overlap > 1e-3)).all()


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda m: observe(m, [1]), "which of 3 layers do: 0, 2; got 1"),
        (lambda m: observe(m, [7]), "which of 3 layers do: 0, 2; got 7"),
        (lambda m: intervene(m, layer=1, beta=0.0), "which of 3 layers do: 0, 2; got 1"),
        (lambda m: intervene(m, layer=0, head=2, rho=0.0), "head must be from 0 to 1"),
        (lambda m: intervene(m, layer=0), "Give a coordinate to hold: alpha, beta, beta_k"),
        (lambda m: intervene(m, layer=0, rh=0.0), r"got 'rh'. Did you mean 'rho'\?"),
        (lambda m: intervene(m, layer=2, rho=0.0), "coordinates of gated_deltanet are alpha"),
        (lambda m: intervene(m, layer=0, lam=1.5), "lam must be from 0 to 1; got 1.5"),
        (lambda m: intervene(m, layer=0, alpha=0.0), "alpha must be above 0 to 1; got 0.0"),
        (lambda m: intervene(m, layer=0, rho=float("nan")), "rho must be from 0 to 1; got nan"),
        (lambda m: intervene(m, rho=[0.1, 2.0]), r"rho must be from 0 to 1; got \[0.1, 2.0\]"),
        (lambda m: intervene(m, layer=2, write=-0.5), r"write must be 0 or more; got -0.5"),
        (lambda m: intervene(m, layer=2, erase=math.inf), r"erase must be 0 or more; got inf"),
        (lambda m: intervene(m, rho=[0.1] * 3), r"one for each of 2 heads; got \(3,\)"),
        (lambda m: intervene(m, erase=0.1, tau=0.1), "atpm and gated_deltanet are .*; got 'tau'"),
    ],
)
def test_what_cannot_be_looked_at_is_refused_in_a_sentence(act, message):
    model = model_of("atpm", "attention", "gated_deltanet")
    with pytest.raises(ValueError, match=message), act(model):
        pass


def test_a_model_without_such_memories_and_traces_without_what_is_asked_are_refused(tmp_path):
    with pytest.raises(ValueError, match="None of the model's layers"), observe(model_of("lstm")):
        pass
    model = model_of("gated_deltanet")
    with observe(model) as trace:
        model(tokens(2, 4))
    for act, message in (
        (lambda: trace.of(1, "beta"), "one that was watched, of 0; got 1"),
        (lambda: trace.of(0, "bet"), r"got 'bet'. Did you mean 'beta'\?"),
        (lambda: trace.around("write", 0, "beta"), "none, for no token has a label; got 'write'"),
        (lambda: trace.label(["x"]), "each of the 4 tokens kept of sequence 0; got 1"),
        (lambda: trace.readable(0, [1]), r"were not kept: observe\(model, vectors=True\)"),
    ):
        with pytest.raises(ValueError, match=message):
            act()
    with pytest.raises(FileNotFoundError, match="does not exist"):
        Trace.load(tmp_path / "none")
    (tmp_path / "bad").write_bytes(b"nothing of the kind")
    with pytest.raises(ValueError, match="is no whole trace"):
        Trace.load(tmp_path / "bad")
    model.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="but no trace of version 1"):
        Trace.load(tmp_path / "model.safetensors")


def test_every_quantity_that_is_seen_has_a_meaning():
    model = model_of(*FAMILY)
    with observe(model) as trace:
        model(tokens(1, 3))
    assert {name for found in trace.values.values() for name in found} == set(QUANTITIES)


def test_a_cache_that_a_call_made_goes_on_with_its_sequences():
    model, ids = model_of("atpm"), tokens(2, 9)
    with observe(model) as trace:
        first = model(ids[:, :4], use_cache=True)
        model(ids[:, 4:], cache=getattr(first, CACHE_NAME))
    assert sorted(by_place_tokens(trace)) == [(row, at) for row in range(2) for at in range(9)]


def test_a_number_of_tokens_to_keep_must_be_one_or_more():
    with (
        pytest.raises(ValueError, match="last must be 1 or more"),
        observe(model_of("atpm"), last=0),
    ):
        pass


def test_an_observer_inside_another_sees_the_same_and_leaves_the_outer():
    model, ids = model_of("atpm"), tokens(1, 6)
    with observe(model) as outer:
        model(ids)
        with observe(model) as inner:
            model(ids)
        model(ids)
    assert (len(outer), len(inner)) == (18, 6)
    for name, values in inner.values[0].items():
        assert torch.equal(outer.of(0, name)[6:12], values)
    assert "remember" not in vars(next(model.memories()))

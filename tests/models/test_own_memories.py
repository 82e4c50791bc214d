"""A memory of a user's own goes wherever one of the library's goes."""

from __future__ import annotations

import json
import shutil
from hashlib import sha256
from pathlib import Path

import pytest
import torch
import yaml
from typer.testing import CliRunner

from fourfold import ByteTokenizer, FourfoldConfig, FourfoldForCausalLM, Session, register_layer
from fourfold.cli import app
from fourfold.grid import Schedule, read_grid
from fourfold.grid.local import run_locally
from fourfold.layers import KeyValueLayer, MemoryLayer
from fourfold.memory_files import load_memory_files
from fourfold.models import sizes_of
from fourfold.models.registry import LAYER_TYPES, sources_of
from fourfold.observe import observe
from fourfold.planning.flops import state_flops

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_memory.py"


class Halver(KeyValueLayer):
    """Writes a share of each value, and forgets nothing."""

    def __init__(self, share, **sizes):
        super().__init__(**sizes)
        self.share = share
        self.reset_parameters()

    def coordinates(self, x, streams):
        share = torch.full_like(streams["k"][..., 0], self.share)
        return self.revision(streams, log_alpha=torch.zeros_like(share), beta=share)


@pytest.fixture
def halver():
    def build(config):
        return Halver(config.options_of("halver").get("share", 0.5), **sizes_of(config))

    register_layer("halver", build)
    yield "halver"
    LAYER_TYPES.pop("halver", None)


def small(**changes):
    fields = dict(hidden_size=16, num_attention_heads=2, layer_types=["halver", "atpm"])
    return FourfoldConfig(**fields | changes)


def test_a_model_with_it_is_saved_and_loaded_and_keeps_sessions(halver, tmp_path):
    model = FourfoldForCausalLM(small(layer_options={"halver": {"share": 0.25}}))
    model.save_pretrained(tmp_path / "model")
    again = FourfoldForCausalLM.from_pretrained(tmp_path / "model")
    assert [memory.share for memory in again.memories() if isinstance(memory, Halver)] == [0.25]
    session = Session(again, ByteTokenizer())
    session.read("what was read")
    session.save(tmp_path / "s")
    expected = session.generate("", max_new_tokens=5)
    assert Session.load(tmp_path / "s", again, ByteTokenizer()).generate("", max_new_tokens=5) == (
        expected
    )
    with observe(model) as trace:
        model(torch.arange(9)[None])
    assert trace.kinds == {0: "halver", 1: "atpm"}
    other = FourfoldForCausalLM(small(layer_options={"halver": {"share": 0.5}}))
    with pytest.raises(ValueError, match="layer_options"):
        Session.load(tmp_path / "s", other, ByteTokenizer())


def test_a_saved_model_whose_memory_is_not_registered_says_what_to_do(halver, tmp_path):
    FourfoldForCausalLM(small()).save_pretrained(tmp_path)
    del LAYER_TYPES["halver"]
    with pytest.raises(ValueError, match="has to be registered first: register_layer in Python"):
        FourfoldForCausalLM.from_pretrained(tmp_path)


def test_names_and_options_that_cannot_be_are_refused(halver):
    for name in ("Mine", "two words", "", "9", "a-b"):
        with pytest.raises(ValueError, match="name must be a word in lower case"):
            register_layer(name, LAYER_TYPES["halver"])
    with pytest.raises(ValueError, match="'atpm' is a memory of the library"):
        register_layer("atpm", LAYER_TYPES["halver"])
    for options in ({"atpm": {"x": 1}}, {"havler": {"x": 1}}):
        with pytest.raises(ValueError, match="layer_options are of registered memories in"):
            small(layer_options=options)
    for options in ({"halver": {"x": object()}}, {"halver": 5}, [1]):
        with pytest.raises(ValueError, match="layer_options must be a mapping of layer types to"):
            small(layer_options=options)


def test_options_are_as_a_file_gives_them_back_and_nobody_can_use_them_up(halver):
    config = small(layer_options={"halver": {"times": (4, 8)}})
    assert config.options_of("halver").pop("times") == [4, 8]
    assert config.options_of("halver") == {"times": [4, 8]}
    assert config.options_of("atpm") == {}
    assert small(layer_options={"halver": {}}).identity() == small().identity()


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("a.txt", "", "must be a Python file"),
        ("missing.py", None, "must be a Python file"),
        ("wrong.py", "\n1 / 0", r"wrong\.py cannot be run: Zero.* \(wrong\.py, line 2\)"),
        ("nothing.py", "x = 1", r"nothing\.py registers no memory"),
    ],
)
def test_files_that_hold_no_memory_are_refused_with_a_sentence(name, text, sentence, tmp_path):
    if text is not None:
        (tmp_path / name).write_text(text)
    before = dict(LAYER_TYPES)
    with pytest.raises(ValueError, match=sentence):
        load_memory_files([tmp_path / name])
    assert before == LAYER_TYPES


def test_a_grid_runs_it_in_other_processes_and_notices_when_its_file_has_changed(tmp_path):
    file = tmp_path / "mine.py"
    shutil.copy(EXAMPLE, file)
    file.write_text(file.read_text().replace('"two_strengths"', '"mine"'))
    grid = tmp_path / "grid.yaml"
    settings = {
        "tasks": {"kv_recall": {"loads": {"iid": [1, 2], "ood": [3, 3], "stress": [4, 4]}}},
        "models": {"Mine": {"layer": "mine"}, "Gated DeltaNet": {"layer": "gated_deltanet"}},
        "parameters": 8000,
        "layers": 1,
        "fields": {"hidden_size": 16, "num_attention_heads": 1},
        "rates": [0.01],
        "training": {"steps": 3, "batch_size": 2, "warmup_steps": 1},
        "evaluation": {"examples": 2, "validation_examples": 2, "curve_points": 1},
    }
    grid.write_text(yaml.safe_dump(settings))
    out = tmp_path / "out"
    command = ["--memory", str(file), "tasks", "run", str(grid), "--out", str(out)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert f"fourfold --memory {file.resolve()} tasks report {out}" in result.output
    results = {path.parent.name: json.loads(path.read_text()) for path in out.rglob("rate*.json")}
    assert "memories" not in results["gated-deltanet"]["settings"]
    assert abs(results["mine"]["parameters"] / 8000 - 1) < 0.02
    digest, said = sha256(file.read_bytes()).hexdigest(), []
    assert results["mine"]["settings"]["memories"] == {"mine": digest}

    # Edited while it is in use: what is told of it is still what runs, and no worker takes the new.
    file.write_text(file.read_text() + "# another memory now\n")
    assert sources_of(["mine", "atpm"]) == {"memories": {"mine": digest}}
    assert run_locally(Schedule(read_grid(grid)), tmp_path / "new", workers=1, on_event=said.append)
    assert "mine.py changed while it was in use; start again." in said[-1].message
    assert not list((tmp_path / "new").rglob("*mine*"))

    # Run anew it is another memory, whose results are others.
    changed = CliRunner().invoke(app, command)
    assert changed.exit_code == 1
    assert "is of other settings (different: memories)" in changed.output
    assert sources_of(["mine"]) != {"memories": {"mine": digest}}


def test_the_operations_of_another_recurrence_are_asked_for_in_a_sentence():
    class Other(MemoryLayer):
        process = initial_state = None

    with pytest.raises(ValueError, match=r"operations of Other with its state are not known; say"):
        state_flops(Other(), 10)

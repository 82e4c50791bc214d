"""Imports go inward only: ops know nothing of layers, layers nothing of models."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

import fourfold

ROOT = Path(fourfold.__file__).parent
ALLOWED = {
    "ops": {"ops"},
    "layers": {"layers", "ops"},
    "models": {"models", "layers", "ops", "files"},
    "sessions": {"sessions", "models", "layers", "ops", "files"},
}


def imported(path: Path) -> set[str]:
    """Every module that a file imports, inside functions and relatively too, by its full name."""
    package = ["fourfold", *path.relative_to(ROOT).parent.parts]
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*start, *([node.module] if node.module else [])])
            # from fourfold import x may name a ring, or what the package itself gathers from all.
            names = {f"{module}.{alias.name}" for alias in node.names}
            found |= names if module == "fourfold" else {module}
    return found


def outward(path: Path, allowed: set[str]) -> list[str]:
    """What a file of a ring imports from rings that it must not know."""
    ours = [name.split(".") for name in imported(path) if name.split(".")[0] == "fourfold"]
    return [".".join(parts) for parts in ours if len(parts) < 2 or parts[1] not in allowed]


def test_no_ring_imports_outward():
    for ring, allowed in ALLOWED.items():
        for path in (ROOT / ring).rglob("*.py"):
            assert outward(path, allowed) == [], path


@pytest.mark.parametrize(
    "line",
    [
        "import fourfold",
        "import fourfold.models",
        "from fourfold import Session",
        "from fourfold import models",
        "from fourfold.models.cache import FourfoldCache",
        "from ..models import FourfoldConfig",
        "from .. import models",
        "def f():\n    from fourfold.layers import ATPM",
    ],
)
def test_every_way_to_import_outward_is_noticed(line, tmp_path, monkeypatch):
    (tmp_path / "ops").mkdir()
    path = tmp_path / "ops" / "bad.py"
    path.write_text(line)
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    assert outward(path, ALLOWED["ops"])


def test_operators_and_layers_need_torch_alone():
    for ring in ("ops", "layers"):
        for path in (ROOT / ring).rglob("*.py"):
            for module in imported(path):
                assert not module.startswith(("transformers", "safetensors", "typer", "rich")), path


def test_no_file_is_read_as_anything_but_data():
    for path in ROOT.rglob("*.py"):
        source = path.read_text()
        for word in (r"pickle", r"(?<!safetensors\.)\btorch\.load\(", r"(?<!\.)\b(eval|exec)\("):
            assert not re.search(word, source), f"{word} in {path.name}"

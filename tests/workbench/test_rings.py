"""Imports go inward only: ops know nothing of layers, layers nothing of models."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import fourfold

ROOT = Path(fourfold.__file__).parent
ALLOWED = {
    "ops": {"ops"},
    "layers": {"layers", "ops"},
    "models": {"models", "layers", "ops"},
    "sessions": {"sessions", "models", "layers", "ops", "files"},
}


def imported(path: Path) -> set[str]:
    """Every module that a file imports, inside functions too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


def test_no_ring_imports_outward():
    for ring, allowed in ALLOWED.items():
        for path in (ROOT / ring).glob("*.py"):
            for module in imported(path):
                if module.startswith("fourfold."):
                    assert module.split(".")[1] in allowed, f"{path.name} imports {module}"


def test_operators_and_layers_need_torch_alone():
    for ring in ("ops", "layers"):
        for path in (ROOT / ring).glob("*.py"):
            for module in imported(path):
                assert not module.startswith(("transformers", "safetensors", "typer", "rich")), path


def test_no_file_is_read_as_anything_but_data():
    for path in ROOT.rglob("*.py"):
        source = path.read_text()
        for word in (r"pickle", r"(?<!safetensors\.)\btorch\.load\(", r"(?<!\.)\b(eval|exec)\("):
            assert not re.search(word, source), f"{word} in {path.name}"

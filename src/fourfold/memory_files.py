"""Python files that hold memories of a user's own, named on the command line."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

from fourfold.models.registry import BUILT_IN, LAYER_TYPES

_loaded: list[Path] = []


def load_memory_files(paths: Sequence[Path]) -> None:
    """Run Python files that call ``register_layer``; one that was run before is not run again.

    Other processes of a run are given ``loaded_memory_files`` and do the same.

    Raises:
        OSError, ValueError: a file cannot be read or run, or registers no memory.
    """
    for path in map(Path.resolve, paths):
        if path not in _loaded:
            _run(path)
            _loaded.append(path)


def loaded_memory_files() -> list[Path]:
    """The files that were run in this process."""
    return [*_loaded]


def _run(path: Path) -> None:
    if path.suffix != ".py" or not path.is_file():
        raise ValueError(f"A file of memories must be a Python file (.py); got {path}.")
    name = f"fourfold_memory_{path.stem}"
    if name in sys.modules:
        raise ValueError(f"Two files of memories are called {path.name}; rename one.")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = dict(LAYER_TYPES)
    sys.modules[name] = module  # where dataclasses look for it
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ValueError(f"{path} cannot be run: {type(error).__name__}: {error}") from error
    if before == LAYER_TYPES:
        del sys.modules[name]
        raise ValueError(
            f"{path} registers no memory: it must call fourfold.register_layer, with a name other "
            f"than {', '.join(sorted(BUILT_IN))}."
        )

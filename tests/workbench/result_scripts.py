"""The scripts beside the results, as modules, and small grids for them."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml
from typer.testing import CliRunner

from fourfold.cli import app

RESULTS = Path(__file__).parents[2] / "results"


def script(path: str, **settings: Any) -> ModuleType:
    """A script below results/, with other settings than its own."""
    spec = spec_from_file_location(path.replace("/", "_"), RESULTS / f"{path}.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, value in settings.items():
        assert hasattr(module, name)
        setattr(module, name, value)
    return module


def run_grid(grid: dict[str, Any], folder: Path) -> Path:
    """A grid, trained as the command trains it."""
    config = folder / "grid.yaml"
    config.write_text(yaml.safe_dump(grid))
    done = CliRunner().invoke(app, ["tasks", "run", str(config), "--out", str(folder)])
    assert done.exit_code == 0, done.output
    return folder

"""Result files: what was measured, and everything needed to measure it again."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from fourfold.files import write_atomically


def provenance() -> dict[str, Any]:
    """Command, commit, versions, machine and time of the run that asks."""
    return {
        "command": [*_program(), *sys.argv[1:]],
        "commit": _commit(),
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("fourfold", "torch", "transformers")},
        },
        "machine": {
            "processor": platform.machine(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
        },
        "finished": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def write_result(path: str | os.PathLike[str], result: dict[str, Any]) -> None:
    """Write ``result`` as JSON, atomically."""
    write_atomically(path, (json.dumps(result, indent=2, ensure_ascii=False) + "\n").encode())


def read_result(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """The result at ``path``, or None if there is none.

    Raises:
        ValueError: the file is no JSON object.
    """
    path = Path(path)
    if not path.exists():
        return None
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is no result file: {error}.") from error
    if not isinstance(result, dict):
        raise ValueError(f"{path} is no result file: it holds no JSON object.")
    return result


def refuse_other(path: Path, differences: Iterable[str]) -> None:
    """See that what was found at ``path`` is of the settings that are asked for.

    Args:
        differences: the settings that differ.

    Raises:
        ValueError: there are some.
    """
    if changed := ", ".join(differences):
        raise ValueError(
            f"{path} is of other settings (different: {changed}) and is left as it is; give "
            "another output folder, or remove this one."
        )


def _program() -> list[str]:
    """What was called: fourfold, or a script."""
    called = Path(sys.argv[0])
    script = called.suffix == ".py" and called.name != "__main__.py"
    return ["python", sys.argv[0]] if script else ["fourfold"]


def _commit() -> str | None:
    """The commit of the code that runs, with a plus if it was changed since; None if unknown."""

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", str(Path(__file__).parent), *arguments],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()

    try:
        if not git("ls-files", Path(__file__).name):
            return None  # installed inside somebody else's repository
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "-uno") else "")
    except (OSError, subprocess.CalledProcessError):
        return None

"""What a result says of the machine it comes from, beyond its provenance."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch


def cpu_model() -> str:
    """The processor's name, or its architecture where the system does not tell."""
    path = Path("/proc/cpuinfo")
    if path.exists():
        for line in path.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def best_device() -> str:
    """A GPU if there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def device_model(device: str) -> str:
    """The name of the device that computes."""
    if torch.device(device).type == "cuda":
        return torch.cuda.get_device_name(device)
    return cpu_model()


def versions(packages: Sequence[str]) -> dict[str, str | None]:
    """Versions of packages that need not be installed; None if one is not."""
    return {package: _version(package) for package in packages}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None

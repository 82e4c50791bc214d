"""Checkpoints: everything that a run needs to go on as if it had never stopped.

    RUN/checkpoints/step-00000500/
        checkpoint.json         step, what the run is, seconds, SHA-256 of the files
        model.safetensors       weights by name
        optimizer.safetensors   the optimiser's state by weight, "exp_avg/model.norm.weight"
        process-0.safetensors   of each process: memories of its lanes
        process-0.json          of each process: how far it has read, and its random numbers

A checkpoint is written beside its place, synced and renamed, so that there is a whole one or none.
Tensors are safetensors and the rest is JSON: a checkpoint is read as data only.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from fourfold.files import digest_of, follow_umask, sync_file, sync_folder, write_atomically
from fourfold.models import FourfoldConfig
from fourfold.results import refuse_other
from fourfold.training.loop import FitOptions

FORMAT = 2
_NAME = re.compile(r"step-(\d{8,})")


@dataclass(frozen=True)
class Checkpoint:
    """What one process writes and reads.

    Attributes:
        step: updates done.
        run: what the run is (its recipe and its processes); a run goes on only with its own.
        seconds: that were spent, by what on; of the first process.
        model, optimizer: tensors by name; of all processes together.
        tensors: of this process.
        position: of this process; JSON can hold it.
    """

    step: int
    run: dict[str, Any]
    seconds: dict[str, float]
    model: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    tensors: dict[str, Tensor]
    position: dict[str, Any]


class Checkpoints:
    """The checkpoints of a run.

    Args:
        folder: RUN/checkpoints; made if it is not there.
        keep: how many of the latest to keep.
        process: the number of this one.
        together, anywhere: ``Processes.together`` and ``Processes.any``.
    """

    def __init__(
        self,
        folder: Path,
        *,
        keep: int,
        process: int = 0,
        together: Callable[[], AbstractContextManager[None]] = nullcontext,
        anywhere: Callable[[bool], bool] = bool,
    ) -> None:
        self.folder, self.keep = folder, keep
        self.process, self.together, self.anywhere = process, together, anywhere
        self._damaged: set[int] = set()

    def steps(self) -> list[int]:
        """Of which there are checkpoints, in rising order."""
        if not self.folder.is_dir():
            return []
        matches = (_NAME.fullmatch(path.name) for path in self.folder.iterdir())
        return sorted(int(match[1]) for match in matches if match)

    def path(self, step: int) -> Path:
        """Where the checkpoint of ``step`` is."""
        return self.folder / f"step-{step:08d}"

    def write(self, checkpoint: Checkpoint) -> None:
        """Keep ``checkpoint`` and forget the oldest; every process calls this.

        Raises:
            OSError: it cannot be written; those from before are as they were.
        """
        temporary = self.folder / f".{self.path(checkpoint.step).name}.tmp"
        try:
            with self.together():
                if self.process == 0:
                    self._begin(temporary)
            with self.together():
                self._write_parts(temporary, checkpoint)
            with self.together():
                if self.process == 0:
                    self._complete(temporary, checkpoint)
        except OSError:
            if self.process == 0:
                shutil.rmtree(temporary, ignore_errors=True)
            raise

    def _begin(self, temporary: Path) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for left in self.folder.glob(".step-*.tmp"):
            shutil.rmtree(left)
        temporary.mkdir()

    def _complete(self, temporary: Path, checkpoint: Checkpoint) -> None:
        place = self.path(checkpoint.step)
        content = {
            "format": FORMAT,
            "step": checkpoint.step,
            "run": checkpoint.run,
            "seconds": checkpoint.seconds,
            "sha256": {path.name: digest_of(path) for path in sorted(temporary.iterdir())},
        }
        _write_json(temporary / "checkpoint.json", content)
        if place.exists():
            shutil.rmtree(place)
        os.rename(temporary, place)
        sync_folder(self.folder)
        whole = [step for step in self.steps() if step not in self._damaged - {checkpoint.step}]
        for step in set(self.steps()) - set(whole[-self.keep :]):
            shutil.rmtree(self.path(step))
        self._damaged.clear()

    def _write_parts(self, folder: Path, checkpoint: Checkpoint) -> None:
        if self.process == 0:
            _write_tensors(folder / "model.safetensors", checkpoint.model)
            _write_tensors(folder / "optimizer.safetensors", checkpoint.optimizer)
        _write_tensors(folder / f"process-{self.process}.safetensors", checkpoint.tensors)
        _write_json(folder / f"process-{self.process}.json", checkpoint.position)

    def latest(
        self, run: Mapping[str, Any], on_damage: Callable[[str], None] = lambda sentence: None
    ) -> Checkpoint | None:
        """The newest checkpoint that is whole for all processes, or None if there is none at all;
        every process calls this.

        Args:
            run: what the checkpoint must be of.
            on_damage: is told of each that is not whole and therefore left out.

        Raises:
            ValueError: it is of another run or of another format, or none is whole.
        """
        steps = self.steps()
        for step in reversed(steps):
            found, how = None, "another process says how"
            try:
                found = self._read(self.path(step), run)
            except _Damage as damage:
                how = str(damage)
            if not self.anywhere(found is None):
                return found
            self._damaged.add(step)
            on_damage(f"The checkpoint {self.path(step)} is damaged ({how}) and is left out.")
        if steps:
            raise ValueError(
                f"No checkpoint in {self.folder} is whole (of the oldest: {how}). Remove the "
                "folder to begin anew."
            )
        return None

    def _read(self, folder: Path, run: Mapping[str, Any]) -> Checkpoint:
        """What this process needs of a checkpoint.

        Raises:
            _Damage: a file cannot be read or is not the one that was written.
            ValueError: it is of another run or of another format.
        """
        try:
            content = json.loads((folder / "checkpoint.json").read_text(encoding="utf-8"))
            version, found = content["format"], content["run"]
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise _Damage(f"checkpoint.json: {error}") from error
        if version != FORMAT:
            raise ValueError(
                f"{folder} is a checkpoint of format {version}; this version of fourfold reads "
                f"format {FORMAT}."
            )
        refuse_other(self.folder.parent, differences(found, run))
        names = ("model.safetensors", "optimizer.safetensors")
        own = (f"process-{self.process}.safetensors", f"process-{self.process}.json")
        try:
            for name in (*names, *own):
                if digest_of(folder / name) != content["sha256"][name]:
                    raise _Damage(f"{name} is not what was written")
            model, optimizer, tensors = (load_file(folder / name) for name in (*names, own[0]))
            return Checkpoint(
                step=content["step"],
                run=found,
                seconds=content["seconds"],
                model=model,
                optimizer=optimizer,
                tensors=tensors,
                position=json.loads((folder / own[1]).read_text(encoding="utf-8")),
            )
        except (OSError, ValueError, LookupError, TypeError, SafetensorError) as error:
            raise _Damage(str(error)) from error


class _Damage(Exception):  # noqa: N818 – always told in a sentence of its own
    """A checkpoint is not what was written."""


def differences(found: Mapping[str, Any], run: Mapping[str, Any]) -> list[str]:
    """The settings in which a run that was kept differs from one, by name."""
    return _differences(_completed(found), _completed(json.loads(json.dumps(run))))


def _completed(run: Mapping[str, Any]) -> dict[str, Any]:
    """With the fields that came after the run was begun, as they are unless they are set."""
    training = run.get("training", {})
    return {
        **run,
        "model": FourfoldConfig.completed(run.get("model", {})),
        "training": {"final_share": FitOptions.final_share, **training},
    }


def _write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    try:
        save_file({name: x.contiguous() for name, x in tensors.items()}, path)
    except SafetensorError as error:
        raise OSError(f"{path.name} cannot be written: {error}") from error
    follow_umask(path)
    sync_file(path)


def _write_json(path: Path, content: Any) -> None:
    write_atomically(path, json.dumps(content).encode())


def _differences(one: Any, other: Any, name: str = "") -> list[str]:
    """The fields in which two nested mappings differ."""
    if not isinstance(one, dict) or not isinstance(other, dict):
        return [] if one == other else [name]
    return [
        difference
        for key in sorted(one.keys() | other.keys())
        for difference in _differences(
            one.get(key), other.get(key), f"{name}.{key}" if name else key
        )
    ]

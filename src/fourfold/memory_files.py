"""Python files that hold memories of a user's own, named on the command line."""

from __future__ import annotations

import sys
import sysconfig
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.abc import SourceLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

from fourfold.models.registry import BUILT_IN, LAYER_TYPES, SOURCES


@dataclass(frozen=True)
class MemoryFile:
    """A file that was run.

    Attributes:
        digest: SHA-256 of what was run.
        names: of the memories that it registered.
    """

    path: Path
    digest: str
    names: tuple[str, ...]


_loaded: dict[Path, MemoryFile] = {}


def load_memory_files(paths: Sequence[Path]) -> None:
    """Run Python files that call ``register_layer``, those that were run before only if changed.

    A file may import others from its own folder.

    Raises:
        OSError, ValueError: a file cannot be read or run, or registers no memory.
    """
    for path in map(Path.resolve, paths):
        source = _read(path)
        if path not in _loaded or _loaded[path].digest != _digest(source):
            _loaded[path] = _run(path, source)


def memory_files_of(layer_types: Iterable[str]) -> list[MemoryFile]:
    """The files that registered these, for ``load_the_same`` in other processes of a run."""
    wanted = {*layer_types}
    return [file for file in _loaded.values() if wanted.intersection(file.names)]


def load_the_same(files: Sequence[MemoryFile]) -> None:
    """``load_memory_files`` in another process of a run.

    Raises:
        OSError, ValueError: as there; or a file has changed since the run began.
    """
    for file in files:
        load_memory_files([file.path])
        if _loaded[file.path].digest != file.digest:
            raise ValueError(f"{file.path} changed while it was in use; start again.")


def place_of(error: BaseException) -> str:
    """ " (file.py, line 7)", the innermost place outside of this library and installed ones."""
    libraries = (str(Path(__file__).parent), sysconfig.get_paths()["purelib"], "<")
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith(libraries):
            return f" ({Path(frame.filename).name}, line {frame.lineno})"
    return ""


class _Read(SourceLoader):
    """Runs what was read, of which the digest is, whatever becomes of the file meanwhile."""

    def __init__(self, path: Path, source: bytes) -> None:
        self._path, self._source = path, source

    def get_filename(self, fullname: str) -> str:
        return str(self._path)

    def get_data(self, path: object) -> bytes:
        return self._source


def _read(path: Path) -> bytes:
    if path.suffix != ".py" or not path.is_file():
        raise ValueError(f"A file of memories must be a Python file (.py); got {path}.")
    return path.read_bytes()


def _digest(source: bytes) -> str:
    return sha256(source).hexdigest()


def _run(path: Path, source: bytes) -> MemoryFile:
    name = f"fourfold_memory_{path.stem}"
    if any(other.stem == path.stem for other in _loaded if other != path):
        raise ValueError(f"Two files of memories are called {path.name}; rename one.")
    spec = spec_from_loader(name, _Read(path, source))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    before = dict(LAYER_TYPES)
    sys.modules[name] = module  # where dataclasses look for it
    sys.path.insert(0, str(path.parent))  # as of a script
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ValueError(
            f"{path} cannot be run: {type(error).__name__}: {error}{place_of(error)}"
        ) from error
    finally:
        sys.path.remove(str(path.parent))
    registered = [name for name, build in LAYER_TYPES.items() if before.get(name) is not build]
    if not registered:
        del sys.modules[name]
        raise ValueError(
            f"{path} registers no memory: it must call fourfold.register_layer, with a name other "
            f"than {', '.join(sorted(BUILT_IN))}."
        )
    digest = _digest(source)
    SOURCES.update(dict.fromkeys(registered, digest))
    return MemoryFile(path, digest, tuple(registered))

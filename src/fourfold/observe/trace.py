"""What was seen of a model's memories, token by token."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from fourfold.files import write_atomically
from fourfold.observe.quantities import QUANTITIES, Rows
from fourfold.settings import near

FORMAT, VERSION = "fourfold-trace", "1"


@dataclass
class Summary:
    """Count, mean, variance and range of a quantity, of each head, over all tokens seen."""

    count: int
    mean: Tensor
    squares: Tensor
    least: Tensor
    greatest: Tensor

    @classmethod
    def of(cls, values: Tensor) -> Summary:
        """Of (L, H) values, one token or more."""
        values = values.double()
        mean = values.mean(0)
        squares = (values - mean).square().sum(0)
        return cls(len(values), mean, squares, values.amin(0), values.amax(0))

    def joined(self, other: Summary) -> Summary:
        """Of the tokens of both."""
        count = self.count + other.count
        shift = other.mean - self.mean
        return Summary(
            count,
            self.mean + shift * (other.count / count),
            self.squares + other.squares + shift.square() * (self.count * other.count / count),
            torch.minimum(self.least, other.least),
            torch.maximum(self.greatest, other.greatest),
        )

    @property
    def deviation(self) -> Tensor:
        """Standard deviation, (H,)."""
        return (self.squares / self.count).sqrt()


@dataclass
class Trace:
    """Quantities of layers at tokens.

    Legend: L tokens, of all sequences, in the order in which they were read; H heads.

    Attributes:
        kinds: the memory of each layer that was watched.
        sequence, position, token: (L,) each; which sequence, from 0, which place in it, and which
            token (−1 where the model was given embeddings).
        values: of each layer, the quantities, (L, H) each; names and meanings in ``QUANTITIES``.
        summaries: of each layer, of all tokens, also of those that are no longer kept.
        events: labels of tokens, "" where there is none; see ``label``.
        reads: of each layer, what was read, (L, H, D), if that was asked for: y as the operator
            gives it, before norm and gate. Of ATPM, columns of the key view, then of the value
            view.
        rows: of each layer, what the last call was made of, if vectors were asked for.
    """

    kinds: dict[int, str]
    sequence: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.long))
    position: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.long))
    token: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.long))
    values: dict[int, dict[str, Tensor]] = field(default_factory=dict)
    summaries: dict[int, dict[str, Summary]] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    reads: dict[int, Tensor] = field(default_factory=dict, repr=False)
    rows: dict[int, Rows] = field(default_factory=dict, repr=False)

    def keep(self, last: int) -> None:
        """Forget the values of all but the ``last`` tokens."""
        for name in ("sequence", "position", "token"):
            setattr(self, name, getattr(self, name)[-last:])
        for found in self.values.values():
            for name, values in found.items():
                # A copy: a view would hold all of what it was cut from.
                found[name] = values[-last:].clone()
        for layer, reads in self.reads.items():
            self.reads[layer] = reads[-last:].clone()
        self.events = self.events[-last:]

    def readable(self, layer: int, places: Sequence[int]) -> Tensor:
        """How well what was written at tokens of the last call can be read at each; see ``Rows``.

        Args:
            places: tokens, from 0, of a call with one sequence.

        Returns:
            (T, P, H).

        Raises:
            ValueError: vectors were not kept, or of several sequences, or a place is not there.
        """
        if layer not in self.rows:
            raise ValueError(
                f"Vectors of layer {layer} were not kept: observe(model, vectors=True) does."
            )
        rows = self.rows[layer]
        sequences, tokens = rows.mask.shape
        if sequences != 1 or not all(0 <= place < tokens for place in places):
            raise ValueError(
                f"places must be from 0 to {tokens - 1} of a call with one sequence; got "
                f"{list(places)} of {sequences}."
            )
        return rows.readable(torch.tensor(list(places), dtype=torch.long))

    def __len__(self) -> int:
        return len(self.sequence)

    def of(self, layer: int, quantity: str) -> Tensor:
        """(L, H).

        Raises:
            ValueError: the layer was not watched, or has no such quantity; a sentence.
        """
        if layer not in self.values:
            watched = ", ".join(map(str, self.values)) or "none"
            raise ValueError(f"layer must be one that was watched, of {watched}; got {layer}.")
        found = self.values[layer]
        if quantity not in found:
            raise ValueError(
                f"quantity must be one of {', '.join(found)} in layer {layer}, "
                f"{self.kinds[layer]}; got {quantity!r}.{near(quantity, found)}"
            )
        return found[quantity]

    def label(self, events: Sequence[str], *, sequence: int = 0) -> None:
        """Say what happens at the tokens of a sequence, in the order of their places.

        Args:
            events: one for each of its tokens, "" where nothing does.

        Raises:
            ValueError: there are not as many.
        """
        places = (self.sequence == sequence).nonzero().flatten()
        if len(events) != len(places):
            raise ValueError(
                f"events must be one for each of the {len(places)} tokens kept of sequence "
                f"{sequence}; got {len(events)}."
            )
        if not self.events:
            self.events = [""] * len(self)
        ordered = places[self.position[places].argsort()]
        for place, event in zip(ordered.tolist(), events, strict=True):
            self.events[place] = event

    def around(
        self, event: str, layer: int, quantity: str, *, before: int = 4, after: int = 8
    ) -> tuple[Tensor, Tensor, int]:
        """A quantity's mean trajectory around an event, and its spread.

        Args:
            event: a label.
            before, after: tokens on either side.

        Returns:
            mean and standard deviation (before + 1 + after, H) over the event's occurrences, NaN
            where no sequence reaches so far, and how many occurrences there are.

        Raises:
            ValueError: no token has this label, or see ``of``.
        """
        values = self.of(layer, quantity).double()
        places = [place for place, label in enumerate(self.events) if label == event]
        if not places:
            known = sorted({label for label in self.events if label})
            raise ValueError(
                f"event must be one of {', '.join(known) or 'none, for no token has a label'}; "
                f"got {event!r}.{near(event, known)}"
            )
        where = {
            key: place
            for place, key in enumerate(
                zip(self.sequence.tolist(), self.position.tolist(), strict=True)
            )
        }
        keys = list(where)
        rows = [
            [where.get((keys[place][0], keys[place][1] + step), -1) for place in places]
            for step in range(-before, after + 1)
        ]
        index = torch.tensor(rows).T
        stacked = values[index].masked_fill((index < 0)[..., None], float("nan"))
        mean = stacked.nanmean(0)
        return mean, (stacked - mean).square().nanmean(0).sqrt(), len(places)

    def columns(self) -> dict[str, list[Any]]:
        """A table, a row for each token, watched layer and head, sequence after sequence."""
        order = sorted(
            range(len(self)), key=lambda i: (int(self.sequence[i]), int(self.position[i]))
        )
        names = list(dict.fromkeys(name for found in self.values.values() for name in found))
        keys = ("sequence", "position", "token", "event", "layer", "kind", "head")
        table: dict[str, list[Any]] = {name: [] for name in (*keys, *names)}
        for layer, found in self.values.items():
            heads = next(iter(found.values())).shape[1]
            listed = {name: values.tolist() for name, values in found.items()}
            for place in order:
                for head in range(heads):
                    row = {
                        "sequence": int(self.sequence[place]),
                        "position": int(self.position[place]),
                        "token": int(self.token[place]),
                        "event": self.events[place] if self.events else "",
                        "layer": layer,
                        "kind": self.kinds[layer],
                        "head": head,
                    }
                    row |= {name: each[place][head] for name, each in listed.items()}
                    for name, column in table.items():
                        column.append(row.get(name))
        return table

    def frame(self, library: str = "pandas") -> Any:
        """``columns`` as a data frame of pandas or polars.

        Raises:
            ValueError: the library is another one, or not installed.
        """
        if library not in ("pandas", "polars"):
            raise ValueError(f"library must be pandas or polars; got {library!r}.")
        try:
            module = __import__(library)
        except ModuleNotFoundError as missing:
            raise ValueError(
                f"A frame of {library} needs it: pip install 'fourfold[{library}]'."
            ) from missing
        return module.DataFrame(self.columns())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trace as safetensors, atomically.

        Raises:
            OSError: nothing could be written; a file that stood there is as before.
        """
        tensors = {"sequence": self.sequence, "position": self.position, "token": self.token}
        for layer, found in self.values.items():
            tensors |= {f"values.{layer}.{name}": each for name, each in found.items()}
        tensors |= {f"reads.{layer}": reads for layer, reads in self.reads.items()}
        for layer, summaries in self.summaries.items():
            for name, summary in summaries.items():
                place = f"summaries.{layer}.{name}"
                tensors[place] = torch.stack(
                    [summary.mean, summary.squares, summary.least, summary.greatest]
                )
        counts = {
            str(layer): {name: summary.count for name, summary in found.items()}
            for layer, found in self.summaries.items()
        }
        about = {
            "format": FORMAT,
            "format_version": VERSION,
            "kinds": json.dumps(self.kinds),
            "counts": json.dumps(counts),
            "events": json.dumps(self.events),
        }
        held = {name: tensor.contiguous() for name, tensor in tensors.items()}
        write_atomically(path, safetensors.torch.save(held, about))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Trace:
        """The trace in a file.

        Raises:
            FileNotFoundError: there is none.
            ValueError: it is no whole trace.
        """
        path = Path(path)
        if not path.exists():
            raise FileNotFoundError(f"{path} does not exist.")
        try:
            with safe_open(path, framework="pt") as file:
                about = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError) as error:
            raise ValueError(f"{path} is no whole trace: {error}.") from error
        if about.get("format") != FORMAT or about.get("format_version") != VERSION:
            raise ValueError(f"{path} is a safetensors file but no trace of version {VERSION}.")
        try:
            return cls._of_tensors(tensors, about)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise ValueError(f"{path} is no whole trace: {error}.") from error

    @classmethod
    def _of_tensors(cls, tensors: Mapping[str, Tensor], about: Mapping[str, str]) -> Trace:
        kinds = {int(layer): kind for layer, kind in json.loads(about["kinds"]).items()}
        values: dict[int, dict[str, Tensor]] = {layer: {} for layer in kinds}
        summaries: dict[int, dict[str, Summary]] = {layer: {} for layer in kinds}
        reads: dict[int, Tensor] = {}
        counts = json.loads(about["counts"])
        for place, tensor in tensors.items():
            what, _, rest = place.partition(".")
            number, _, name = rest.partition(".")
            if what == "values":
                values[int(number)][name] = tensor
            elif what == "summaries":
                summaries[int(number)][name] = Summary(counts[number][name], *tensor)
            elif what == "reads":
                reads[int(number)] = tensor
        events = json.loads(about["events"])
        if len(events) not in (0, len(tensors["sequence"])):
            raise ValueError("there are not as many events as tokens")
        # The file sorts names; a table has them in the order of their meaning.
        for layer, found in values.items():
            values[layer] = {name: found[name] for name in QUANTITIES if name in found}
        return cls(
            kinds=kinds,
            sequence=tensors["sequence"],
            position=tensors["position"],
            token=tensors["token"],
            values=values,
            summaries=summaries,
            events=events,
            reads=reads,
        )

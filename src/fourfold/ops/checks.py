"""Argument checks for the operators: every refusal is a sentence that names the argument."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import torch
from torch import Tensor


class Shapes:
    """Binds dimension letters to sizes, tensor by tensor, and refuses what does not fit.

    >>> shapes = Shapes()
    >>> shapes.bind("q", torch.zeros(2, 5, 3, 8), "B T H S")
    >>> shapes.sizes["T"]
    5
    """

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}
        self._origin: dict[str, str] = {}
        self._device: torch.device | None = None
        self._first = ""

    def bind(self, name: str, value: object, *layouts: str) -> None:
        """Check that ``value`` is a floating tensor in one of ``layouts`` on the device seen first.

        A layout is a string of dimension names ("B T H S"); a name not yet bound takes its size
        from ``value``.

        Raises:
            TypeError: ``value`` is no tensor, or not a floating one.
            ValueError: its shape fits none of the layouts, or it lies on another device.
        """
        if not isinstance(value, Tensor):
            raise TypeError(f"{name} must be a torch.Tensor; got {type(value).__name__}.")
        if not value.is_floating_point():
            raise TypeError(
                f"{name} must be a floating tensor (float64, float32, bfloat16 or float16); "
                f"got {value.dtype}."
            )
        if self._device is None:
            self._device, self._first = value.device, name
        elif value.device != self._device:
            raise ValueError(
                f"{name} must be on the device of {self._first}, {self._device}; "
                f"got {value.device}."
            )
        for layout in layouts:
            names = layout.split()
            if self._fits(names, value.shape):
                for letter, size in zip(names, value.shape, strict=True):
                    if letter not in self.sizes:
                        self.sizes[letter], self._origin[letter] = size, name
                return
        accepted = " or ".join(self._describe(layout) for layout in layouts)
        raise ValueError(
            f"{name} must have shape {accepted}; got {tuple(value.shape)}."
            f"{self._explain(value, layouts)}"
        )

    def _fits(self, names: list[str], shape: torch.Size) -> bool:
        if len(names) != len(shape):
            return False
        # A plain loop: a step of one token is checked as well, and takes little longer.
        for letter, size in zip(names, shape, strict=True):
            if self.sizes.get(letter, size) != size:
                return False
        return True

    def _explain(self, value: Tensor, layouts: tuple[str, ...]) -> str:
        """Which argument set the sizes that ``value`` does not have: that one may be the wrong."""
        for layout in layouts:
            names = layout.split()
            if len(names) == value.ndim:
                found = [
                    f" {letter} = {self.sizes[letter]} is that of {self._origin[letter]}."
                    for letter, size in zip(names, value.shape, strict=True)
                    if self.sizes.get(letter, size) != size and letter in self._origin
                ]
                return "".join(found)
        return ""

    def _describe(self, layout: str) -> str:
        names = layout.split()
        known = ", ".join(str(self.sizes.get(letter, letter)) for letter in names)
        return f"({', '.join(names)}) = ({known})"


def check_finite(tensors: Mapping[str, Tensor]) -> None:
    """Refuse NaN and infinity.

    Raises:
        ValueError: names the tensor and how many of its entries are not finite.
    """
    for name, tensor in tensors.items():
        bad = int((~torch.isfinite(tensor)).sum())
        if bad:
            raise ValueError(
                f"{name} must be finite; got {bad} NaN or infinite entries of {tensor.numel()}."
            )


def check_range(name: str, tensor: Tensor, low: float, high: float) -> None:
    """Refuse entries outside [low, high].

    Raises:
        ValueError: names the tensor, its extremes and the accepted interval.
    """
    if tensor.numel() and (bool((tensor < low).any()) or bool((tensor > high).any())):
        raise ValueError(
            f"{name} must lie in [{low:g}, {high:g}]; "
            f"got values from {float(tensor.min()):g} to {float(tensor.max()):g}."
        )


def sequence_lengths(cu_seqlens: Tensor | None, batch: int, tokens: int) -> list[int] | None:
    """Lengths of the N sequences that ``cu_seqlens`` packs into one row; None when unpacked.

    Args:
        cu_seqlens: (N + 1,) integer tensor of offsets: 0 first, never decreasing, ``tokens`` last.
            Equal neighbours are an empty sequence.
        batch: B of the packed tensors; must be 1.
        tokens: T of the packed tensors.

    Raises:
        TypeError: not an integer tensor.
        ValueError: wrong shape, offsets that do not start at 0, decrease, or miss ``tokens``;
            or B other than 1.
    """
    if cu_seqlens is None:
        return None
    if not isinstance(cu_seqlens, Tensor) or cu_seqlens.dtype not in (torch.int32, torch.int64):
        got = cu_seqlens.dtype if isinstance(cu_seqlens, Tensor) else type(cu_seqlens).__name__
        raise TypeError(f"cu_seqlens must be an int32 or int64 tensor; got {got}.")
    if cu_seqlens.ndim != 1 or cu_seqlens.numel() < 1:
        raise ValueError(
            "cu_seqlens must have shape (N + 1,), one offset more than sequences; "
            f"got {tuple(cu_seqlens.shape)}."
        )
    if batch != 1:
        raise ValueError(
            f"cu_seqlens packs sequences into one row, so B must be 1; got B = {batch}."
        )
    offsets = cu_seqlens.tolist()
    lengths = [end - start for start, end in pairwise(offsets)]
    if offsets[0] != 0 or offsets[-1] != tokens or any(length < 0 for length in lengths):
        raise ValueError(
            f"cu_seqlens must start at 0, never decrease and end at T = {tokens}; got {offsets}."
        )
    return lengths

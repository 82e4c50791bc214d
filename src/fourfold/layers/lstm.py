"""The long short-term memory of 1997, as a layer among the others."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fourfold.layers.base import Initialised, MemoryLayer
from fourfold.layers.packing import mask_of, pack, unpack
from fourfold.layers.state import LSTMState


class Cell(Initialised, nn.LSTM):
    """torch's LSTM, with its own start: weights as torch draws them, the forget gate open."""

    def initial_values(self, std: float) -> Iterator[tuple[Tensor, Tensor]]:
        bound = self.hidden_size**-0.5
        for name, parameter in self.named_parameters():
            value = torch.empty_like(parameter).uniform_(-bound, bound)
            if name.startswith("bias"):
                value.zero_()
            if name == "bias_ih_l0":
                value[self.hidden_size : 2 * self.hidden_size] = 1.0
            yield parameter, value


class LSTM(MemoryLayer[LSTMState]):
    """torch.nn.LSTM, one layer, hidden_size in and out; the forget gate starts open (bias 1).

    Under autocast it computes in the type of its weights: hidden and cell would otherwise be
    rounded at every token.

    Source: Hochreiter and Schmidhuber, 1997; Jozefowicz and others, 2015, for the bias.
    """

    def __init__(self, *, hidden_size: int) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.cell = Cell(hidden_size, hidden_size, batch_first=True)

    def process(
        self, x: Tensor, state: LSTMState | None, cu_seqlens: Tensor | None
    ) -> tuple[Tensor, LSTMState]:
        if not torch.is_autocast_enabled(x.device.type):
            return self._read(x, state, cu_seqlens)
        dtype = next(self.cell.parameters()).dtype
        with torch.autocast(x.device.type, enabled=False):
            before = None if state is None else state.map(lambda part: part.to(dtype))
            return self._read(x.to(dtype), before, cu_seqlens)

    def _read(
        self, x: Tensor, state: LSTMState | None, cu_seqlens: Tensor | None
    ) -> tuple[Tensor, LSTMState]:
        sequences = x.shape[0] if cu_seqlens is None else cu_seqlens.numel() - 1
        if state is None:
            state = self.initial_state(sequences, dtype=x.dtype, device=x.device)
        if x.shape[1] == 0:
            return x, state
        if cu_seqlens is None:
            y, (hidden, cell) = self.cell(x, (state.hidden[None], state.cell[None]))
            return y, LSTMState(hidden=hidden[0], cell=cell[0])

        mask = mask_of(cu_seqlens)
        lengths = mask.sum(1)
        # Longest first, so that those which are still being read are always the first ones.
        order = lengths.argsort(descending=True, stable=True)
        back = order.argsort()
        y, (hidden, cell) = self._walk(
            unpack(x, mask).index_select(0, order),
            (state.hidden.index_select(0, order)[None], state.cell.index_select(0, order)[None]),
            lengths.index_select(0, order).tolist(),
        )
        return pack(y.index_select(0, back), mask), LSTMState(
            hidden=hidden[0].index_select(0, back), cell=cell[0].index_select(0, back)
        )

    def _walk(
        self, rows: Tensor, state: tuple[Tensor, Tensor], lengths: list[int]
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Read rows of falling lengths, from one length to the next at a time.

        torch reads packed sequences as well, but there every token takes a slice of all of them,
        which makes its backward pass quadratic.
        """
        stops = sorted({length for length in lengths if length})
        steps = [stop - start for start, stop in zip([0, *stops], stops, strict=False)]
        read, ended = [], []
        for piece, stop in zip(rows.split(steps, 1), stops, strict=True):
            alive = sum(length >= stop for length in lengths)
            ended.append(tuple(part[:, alive:] for part in state))
            y, state = self.cell(piece[:alive], tuple(part[:, :alive] for part in state))
            read.append(F.pad(y, (0, 0, 0, 0, 0, len(lengths) - alive)))
        parts = [state, *reversed(ended)]
        hidden, cell = (torch.cat([part[index] for part in parts], 1) for index in (0, 1))
        return torch.cat(read, 1), (hidden, cell)

    def initial_state(
        self, sequences: int, *, dtype: torch.dtype, device: torch.device | str | None = None
    ) -> LSTMState:
        zeros = torch.zeros(sequences, self.hidden_size, dtype=dtype, device=device)
        return LSTMState(hidden=zeros, cell=zeros)

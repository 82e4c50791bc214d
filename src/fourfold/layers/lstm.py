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
        # Longest first, so that those which are still being read are always the first ones.
        order = mask.sum(1).argsort(descending=True, stable=True)
        back = order.argsort()
        y, state = self._walk(
            unpack(x, mask).index_select(0, order),
            state.select(order),
            mask.index_select(0, order),
        )
        return pack(y.index_select(0, back), mask), state.select(back)

    def _walk(self, rows: Tensor, state: LSTMState, mask: Tensor) -> tuple[Tensor, LSTMState]:
        """Read rows (B, T, hidden_size) of falling lengths, zero behind their ends; mask (B, T)
        marks the tokens.

        Each time that half of the rows have ended, the others go on without them. Until then those
        which have ended keep their cell: there one more input is 1, which opens the forget gate and
        shuts the input gate so far that they round to 1 and 0.

        torch reads packed sequences as well, but there every token takes a slice of all of them,
        which makes its backward pass quadratic.
        """
        rows = torch.cat([rows, ~mask[..., None]], 2)
        weight, *others = self.cell.parameters()
        gates = torch.tensor([-1e4, 1e4, 0.0, 0.0]).to(weight).repeat_interleave(self.hidden_size)
        weights = [torch.cat([weight, gates[:, None]], 1), *others]
        lengths = mask.sum(1)
        ends = lengths.tolist()
        alive, start = sum(end > 0 for end in ends), 0
        part = [state.hidden[None, :alive], state.cell[None, :alive]]
        read, cells = [], [state.cell[alive:]]
        while alive:
            stop = ends[alive // 2]
            y, hidden, cell = torch.lstm(
                rows[:alive, start:stop],
                part,
                weights,
                has_biases=True,
                num_layers=1,
                dropout=0.0,
                train=self.training,
                bidirectional=False,
                batch_first=True,
            )
            read.append(F.pad(y, (0, 0, 0, 0, 0, len(ends) - alive)))
            alive, start = sum(end > stop for end in ends), stop
            cells.append(cell[0, alive:])
            part = [hidden[:, :alive], cell[:, :alive]]
        y = torch.cat(read, 1)
        # What an ended row goes on to say means nothing, nor does what it hides.
        last = y[torch.arange(len(ends), device=y.device), (lengths - 1).clamp(min=0)]
        hidden = torch.where(lengths[:, None] > 0, last, state.hidden)
        return y, LSTMState(hidden=hidden, cell=torch.cat(cells[::-1]))

    def initial_state(
        self, sequences: int, *, dtype: torch.dtype, device: torch.device | str | None = None
    ) -> LSTMState:
        zeros = torch.zeros(sequences, self.hidden_size, dtype=dtype, device=device)
        return LSTMState(hidden=zeros, cell=zeros)

"""The long short-term memory of 1997, as a layer among the others."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

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

    Source: Hochreiter and Schmidhuber, 1997; Jozefowicz and others, 2015, for the bias.
    """

    def __init__(self, *, hidden_size: int) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.cell = Cell(hidden_size, hidden_size, batch_first=True)

    def process(
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
        # torch's packed sequences must not be empty, so only those with tokens are walked.
        lengths = mask.sum(1)
        walked = lengths.nonzero().flatten()
        own = state.select(walked)
        padded = pack_padded_sequence(
            unpack(x, mask).index_select(0, walked),
            lengths.index_select(0, walked).cpu(),
            batch_first=True,
            enforce_sorted=False,
        )
        packed, (hidden, cell) = self.cell(padded, (own.hidden[None], own.cell[None]))
        y, _ = pad_packed_sequence(packed, batch_first=True)
        return pack(y, mask.index_select(0, walked)), LSTMState(
            hidden=state.hidden.index_copy(0, walked, hidden[0]),
            cell=state.cell.index_copy(0, walked, cell[0]),
        )

    def initial_state(
        self, sequences: int, *, dtype: torch.dtype, device: torch.device | str | None = None
    ) -> LSTMState:
        zeros = torch.zeros(sequences, self.hidden_size, dtype=dtype, device=device)
        return LSTMState(hidden=zeros, cell=zeros)

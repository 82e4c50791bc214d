"""What the layers on the delta rule share: everything but the coordinates they give it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, TypedDict

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from typing_extensions import Required

from fourfold.layers.base import MemoryLayer
from fourfold.layers.short_convolution import ShortConvolution
from fourfold.layers.state import RecurrentState
from fourfold.ops import delta_rule, pointwise
from fourfold.ops.pointwise import rms_norm


def unit(x: Tensor, *, scale: float = 1.0) -> Tensor:
    """Rows of norm ``scale``, in float32 at least: addresses must be exact."""
    return pointwise.unit(x.to(torch.promote_types(x.dtype, torch.float32)), scale=scale)


class DeltaFamilyLayer(MemoryLayer[RecurrentState]):
    """Project, convolve, remember, normalise, gate, project back.

        streams = silu(conv(W_in x))          one slice a stream and head
        y, E    = operator(**coordinates(x, streams), initial_state=E)
        out     = W_out (rms(y) ⊙ gate(W_g x))

    A subclass is the map from x and its streams to the operator's arguments.

    Args:
        hidden_size: size of x.
        num_heads: H.
        streams: width per head of each projected stream.
        address_dim: S of the state.
        columns: D of the state, the width of what is read back.
        conv_size: width of the short convolution; 0 for none.
        norm_eps: epsilon of the output norm.
        gate: activation of the output gate; None for no gate.
        chunk_size: of the operator's chunked form.
    """

    operator: Callable[..., tuple[Tensor, Any]] = staticmethod(delta_rule)

    def __init__(
        self,
        *,
        hidden_size: int,
        num_heads: int,
        streams: Mapping[str, int],
        address_dim: int,
        columns: int,
        conv_size: int,
        norm_eps: float,
        gate: Callable[[Tensor], Tensor] | None,
        chunk_size: int,
    ) -> None:
        super().__init__()
        self.hidden_size, self.num_heads = hidden_size, num_heads
        self.streams = dict(streams)
        self.address_dim, self.columns = address_dim, columns
        self.chunk_size = chunk_size
        channels = num_heads * sum(streams.values())
        self.in_proj = nn.Linear(hidden_size, channels, bias=False)
        self.convolution = ShortConvolution(channels, conv_size) if conv_size else None
        self.norm = nn.RMSNorm(columns, eps=norm_eps)
        self.norm_eps = norm_eps
        self.gate = gate
        self.gate_proj = nn.Linear(hidden_size, num_heads * columns, bias=False) if gate else None
        self.out_proj = nn.Linear(num_heads * columns, hidden_size, bias=False)

    @abstractmethod
    def coordinates(self, x: Tensor, streams: dict[str, Tensor]) -> dict[str, Tensor]:
        """The operator's arguments: x (B, T, hidden_size), streams (B, T, H, width) each."""

    def process(
        self, x: Tensor, state: RecurrentState | None, cu_seqlens: Tensor | None
    ) -> tuple[Tensor, RecurrentState]:
        streams, convolution = self.project(x, state, cu_seqlens)
        before = None if state is None else state.memory
        y, memory = self.remember(self.coordinates(x, streams), before, cu_seqlens)
        return self.finish(y, x), RecurrentState(memory=memory, convolution=convolution)

    def remember(
        self, coordinates: dict[str, Tensor], memory: Tensor | None, cu_seqlens: Tensor | None
    ) -> tuple[Tensor, Any]:
        """What is read, (B, T, H, D), and the new memory (N, H, S, D)."""
        return type(self).operator(
            **coordinates,
            initial_state=memory,
            cu_seqlens=cu_seqlens,
            chunk_size=self.chunk_size,
        )

    def finish(self, y: Tensor, x: Tensor) -> Tensor:
        """W_out (rms(y) ⊙ gate(W_g x)), with y (B, T, H, D) as it was read."""
        return self.out_proj(self._normalised(y, x).flatten(-2))

    def _normalised(self, y: Tensor, x: Tensor) -> Tensor:
        eps = self.norm_eps
        if self.gate is None or self.gate_proj is None:
            return rms_norm(y, self.norm.weight, eps)
        gate = self.gate_proj(x).unflatten(-1, y.shape[-2:])
        if self.gate is F.silu:
            return rms_norm(y, self.norm.weight, eps, gate)
        return rms_norm(y, self.norm.weight, eps) * self.gate(gate)

    def project(
        self, x: Tensor, state: RecurrentState | None, cu_seqlens: Tensor | None
    ) -> tuple[dict[str, Tensor], Tensor | None]:
        """The streams (B, T, H, width) by name, and the convolution's new state."""
        projected, convolution = self.in_proj(x), None
        if self.convolution is not None:
            before = None if state is None else state.convolution
            projected, convolution = self.convolution(projected, before, cu_seqlens)
        else:
            projected = F.silu(projected)
        widths = [self.num_heads * width for width in self.streams.values()]
        parts = projected.split(widths, -1)
        streams = {
            name: part.unflatten(-1, (self.num_heads, width))
            for (name, width), part in zip(self.streams.items(), parts, strict=True)
        }
        return streams, convolution

    def initial_state(
        self, sequences: int, *, dtype: torch.dtype, device: torch.device | str | None = None
    ) -> RecurrentState:
        memory = torch.zeros(
            sequences,
            self.num_heads,
            self.address_dim,
            self.columns,
            dtype=torch.promote_types(dtype, torch.float32),
            device=device,
        )
        if self.convolution is None:
            return RecurrentState(memory=memory)
        width, channels = self.convolution.weight.shape
        history = torch.zeros(sequences, width - 1, channels, dtype=dtype, device=device)
        return RecurrentState(memory=memory, convolution=history)


class KeyValueSizes(TypedDict, total=False):
    """The arguments that all layers with queries, keys and values share.

    hidden_size: size of x. num_heads: H. head_dim: S, size of keys and queries. value_dim: D, size
    of values. conv_size: width of the short convolution, 0 for none. norm_eps: epsilon of the
    output norm. chunk_size: of the operator's chunked form.
    """

    hidden_size: Required[int]
    num_heads: Required[int]
    head_dim: Required[int]
    value_dim: Required[int]
    conv_size: int
    norm_eps: float
    chunk_size: int


class KeyValueLayer(DeltaFamilyLayer):
    """A layer of the family that projects x to queries, keys and values; see ``KeyValueSizes``."""

    def __init__(
        self,
        *,
        hidden_size: int,
        num_heads: int,
        head_dim: int,
        value_dim: int,
        conv_size: int = 4,
        norm_eps: float = 1e-6,
        chunk_size: int = 64,
        gate: Callable[[Tensor], Tensor] | None = F.silu,
    ) -> None:
        super().__init__(
            hidden_size=hidden_size,
            num_heads=num_heads,
            streams={"q": head_dim, "k": head_dim, "v": value_dim},
            address_dim=head_dim,
            columns=value_dim,
            conv_size=conv_size,
            norm_eps=norm_eps,
            gate=gate,
            chunk_size=chunk_size,
        )

    def revision(
        self, streams: dict[str, Tensor], *, log_alpha: Tensor, beta: Tensor
    ) -> dict[str, Tensor]:
        """The plain delta rule's coordinates: unit keys and queries, written where it was read."""
        k = unit(streams["k"])
        return {
            "q": unit(streams["q"], scale=self.address_dim**-0.5),
            "s": k,
            "d": k,
            "e": streams["v"],
            "log_alpha": log_alpha,
            "erase": beta,
            "write": beta,
        }

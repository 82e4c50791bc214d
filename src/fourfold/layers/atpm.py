"""Adaptive Transport–Proximal Memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fourfold.layers.decay import DECAY_TIMES, Decay
from fourfold.layers.delta_family import DeltaFamilyLayer, unit
from fourfold.ops import atpm, transport_proposal

QUERY_GAIN = 4.0
"""How many times as long as the source's projection the query's is when it starts."""


class ATPM(DeltaFamilyLayer):
    """One joint key/value state a head, partial substitution, transported write, proximal recall.

    From each token come a free query q⁰, a source s, the entity e = [k ; v], and five controls a
    head: α, βK, βV, ρ, λ. The entity itself proposes where to write. What the operator does with
    them stands in ``fourfold.ops.atpm``.

    Args:
        hidden_size: size of x.
        num_heads: H.
        head_dim: S, size of addresses and queries.
        key_dim: Dk, columns of the entity's key view; may be 0 (then nothing is proposed and
            transport is idle).
        value_dim: Dv, columns of its value view.
        transport_rank: R of the bilinear proposal.
        unit_query: scale q⁰ to unit norm, the scale on which the recall residual 1 − qᵀa is
            measured. False leaves it unconstrained, as the seed has it (appendix A).
        rho: a fixed ρ for every token in place of the learned one; at 0 nothing is proposed.
        lam: a fixed λ likewise.
        joint_beta: one strength for both views, βK = βV. With rho = 0 and lam = 0 beside it, the
            layer is at the end where it meets Gated DeltaNet.
        conv_size: width of the short convolution; 0 for none.
        decay_init, decay_times: see ``Decay``.
        norm_eps: epsilon of the output norm and of the views' normalisation.
        chunk_size: of the operator's chunked form.

    Source: seed 000, sections 2 to 9. The seed leaves open how a layer surrounds the memory; the
    convolution, output norm and gate are those of Gated DeltaNet, so that the two differ in the
    memory alone.
    """

    operator = staticmethod(atpm)

    def __init__(
        self,
        *,
        hidden_size: int,
        num_heads: int,
        head_dim: int,
        key_dim: int,
        value_dim: int,
        transport_rank: int = 16,
        unit_query: bool = False,
        rho: float | None = None,
        lam: float | None = None,
        joint_beta: bool = False,
        conv_size: int = 4,
        decay_init: str = "published",
        decay_times: Sequence[float] = DECAY_TIMES,
        norm_eps: float = 1e-6,
        chunk_size: int = 64,
    ) -> None:
        super().__init__(
            hidden_size=hidden_size,
            num_heads=num_heads,
            streams={"q": head_dim, "s": head_dim, "k": key_dim, "v": value_dim},
            address_dim=head_dim,
            columns=key_dim + value_dim,
            conv_size=conv_size,
            norm_eps=norm_eps,
            gate=F.silu,
            chunk_size=chunk_size,
        )
        for name, fixed in (("rho", rho), ("lam", lam)):
            if fixed is not None and not 0 <= fixed <= 1:
                raise ValueError(f"{name} must lie in [0, 1] or be None; got {fixed}.")
        self.unit_query = unit_query
        self.fixed = {"rho": rho, "lam": lam}
        self.decay = Decay(hidden_size, num_heads, decay_init, decay_times)
        self.beta_proj = nn.Linear(hidden_size, (1 if joint_beta else 2) * num_heads, bias=False)
        learned = [name for name, fixed in self.fixed.items() if fixed is None]
        self.controller = nn.Linear(hidden_size, len(learned) * num_heads) if learned else None
        self.a_k = self.a_v = self.c = None
        if rho != 0:
            self.a_k = nn.Parameter(torch.empty(num_heads, transport_rank, key_dim))
            self.a_v = nn.Parameter(torch.empty(num_heads, transport_rank, value_dim))
            self.c = nn.Parameter(torch.empty(num_heads, head_dim, transport_rank))
        self.reset_parameters()

    def initial_values(self, std: float) -> Iterator[tuple[Tensor, Tensor]]:
        # λ starts at 0.5, so every read is drawn half way to the token's own fresh write. Against
        # that, the query starts as the source's map, so that only their convolutions have to agree
        # for it to find what was written behind the same token, and long, so that what it finds
        # outweighs the correction. Measured: neither does it alone, nor one convolution for both.
        rows = self.num_heads * self.streams["q"]
        weight = self.in_proj.weight.detach().clone()
        weight[:rows] = QUERY_GAIN * weight[rows : 2 * rows]
        yield self.in_proj.weight, weight
        if self.a_k is not None and self.a_v is not None and self.c is not None:
            # A_K and A_V keep the views' unit scale, so z does not start out vanishing; C starts
            # small, so writes start close to their source while its gradient is of full size.
            yield self.a_k, torch.randn_like(self.a_k) * max(self.a_k.shape[-1], 1) ** -0.5
            yield self.a_v, torch.randn_like(self.a_v) * max(self.a_v.shape[-1], 1) ** -0.5
            yield self.c, torch.randn_like(self.c) * std
        if self.controller is not None:
            # ρ and λ start at exactly 0.5.
            yield self.controller.weight, torch.zeros_like(self.controller.weight)
            yield self.controller.bias, torch.zeros_like(self.controller.bias)

    def coordinates(self, x: Tensor, streams: dict[str, Tensor]) -> dict[str, Tensor]:
        k, v, s = streams["k"], streams["v"], unit(streams["s"])
        strengths = self.beta_proj(x).sigmoid().split(self.num_heads, -1)
        return self._controls(x) | {
            "q": unit(streams["q"]) if self.unit_query else streams["q"],
            "s": s,
            "k": k,
            "v": v,
            "b": self._proposal(k, v, s),
            "log_alpha": self.decay(x)[0],
            "beta_k": strengths[0],
            "beta_v": strengths[-1],
        }

    def _controls(self, x: Tensor) -> dict[str, Tensor]:
        """ρ and λ, (B, T, H) each."""
        learned: list[Tensor] = []
        if self.controller is not None:
            learned = list(self.controller(x).sigmoid().split(self.num_heads, -1))
        return {
            name: learned.pop(0)
            if fixed is None
            else x.new_full((*x.shape[:2], self.num_heads), fixed)
            for name, fixed in self.fixed.items()
        }

    def _proposal(self, k: Tensor, v: Tensor, s: Tensor) -> Tensor:
        if self.a_k is None or self.a_v is None or self.c is None:
            return torch.zeros_like(s)
        return transport_proposal(k=k, v=v, a_k=self.a_k, a_v=self.a_v, c=self.c, eps=self.norm_eps)

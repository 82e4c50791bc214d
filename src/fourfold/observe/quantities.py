"""What can be seen of a memory at a token, and how it is worked out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from fourfold.layers import ATPM, DeltaNet, GatedDeltaNet
from fourfold.layers.delta_family import DeltaFamilyLayer
from fourfold.layers.packing import mask_of, unpack
from fourfold.ops.transport import recall, transport

QUANTITIES = {
    "alpha": "α, retention",
    "beta": "β, strength of the substitution",
    "beta_k": "βK, strength on the key view",
    "beta_v": "βV, strength on the value view",
    "erase": "Ω_e, strength of the erasing",
    "write": "Ω_w, strength of the writing",
    "rho": "ρ, transport",
    "lambda": "λ, proximal recall",
    "tau": "‖τ‖, length of the transport tangent",
    "angle": "angle between source s and destination d, in degrees",
    "residual": "‖r‖ = ‖e − Ēᵀ s‖, what the memory did not foresee",
    "residual_k": "‖r‖ on the key view",
    "residual_v": "‖r‖ on the value view",
    "recall_before": "1 − q⁰ᵀ a, recall residual of the free query",
    "recall_after": "1 − qᵀ a, recall residual of the corrected query",
    "read": "‖y‖, length of what was read",
    "state_norm": "‖E‖, Frobenius norm of the state after the write",
}
"""Names of quantities, the paper's symbols and what they are; a layer has some of them."""


@dataclass(frozen=True)
class Rows:
    """A call's coordinates of the shared recurrence, a row for each of N sequences.

    Attributes:
        q, s, d: (N, T, H, S), the query corrected already.
        e: (N, T, H, D).
        alpha: (N, T, H).
        erase, write: (N, T, H, D), or (N, T, H, 1).
        mask: (N, T), true where there is a token.
        memory: (N, H, S, D) before the first of them.
    """

    q: Tensor
    s: Tensor
    d: Tensor
    e: Tensor
    alpha: Tensor
    erase: Tensor
    write: Tensor
    mask: Tensor
    memory: Tensor

    def walk(self) -> WalkedRows:
        """Every token's state, one after another; only norms and readings are kept."""
        residual, read, norm = [], [], []
        for t, (foreseen, memory) in enumerate(self._states()):
            residual.append(self.e[:, t] - foreseen)
            read.append(torch.einsum("nhsd,nhs->nhd", memory, self.q[:, t]))
            norm.append(memory.flatten(-2).norm(dim=-1))
        return WalkedRows(*(torch.stack(x, 1) for x in (residual, read, norm)))

    def readable(self, places: Tensor) -> Tensor:
        """How well what was written at some tokens can be read at every token.

        The state behind token t is asked with the source s_p of a place p, and what comes back is
        compared with the entity written there: 1 − ‖Eᵀ s − e‖ / ‖e‖, which is 1 where all of e
        comes back, and 0 where nothing does, or something as far from e as that.

        Args:
            places: (P,) tokens of the one row.

        Returns:
            (T, P, H), from −∞ to 1; NaN before a place was read.
        """
        places = places.to(self.s.device)
        asked, wanted = self.s[0, places], self.e[0, places]
        size = wanted.norm(dim=-1).clamp_min(torch.finfo(wanted.dtype).tiny)
        found = []
        for t, (_, memory) in enumerate(self._states()):
            said = torch.einsum("hsd,phs->phd", memory[0], asked)
            score = 1 - (said - wanted).norm(dim=-1) / size
            found.append(score.masked_fill((places > t)[:, None], float("nan")))
        return torch.stack(found)

    def _states(self) -> Iterator[tuple[Tensor, Tensor]]:
        """At each token, Ēᵀ s (N, H, D) and the state behind it (N, H, S, D).

        Behind the end of a shorter row nothing decays and nothing is written.
        """
        memory = self.memory
        for t in range(self.e.shape[1]):
            memory = self.alpha[:, t, :, None, None] * memory
            foreseen = torch.einsum("nhsd,nhs->nhd", memory, self.s[:, t])
            change = self.write[:, t] * self.e[:, t] - self.erase[:, t] * foreseen
            memory = memory + torch.einsum("nhs,nhd->nhsd", self.d[:, t], change)
            yield foreseen, memory


@dataclass(frozen=True)
class WalkedRows:
    """What a walk found.

    Attributes:
        residual: (N, T, H, D), e − Ēᵀ s.
        read: (N, T, H, D), y.
        norm: (N, T, H), ‖E‖.
    """

    residual: Tensor
    read: Tensor
    norm: Tensor


def rows_of(
    layer: DeltaFamilyLayer,
    coordinates: dict[str, Tensor],
    memory: Tensor | None,
    cu_seqlens: Tensor | None,
) -> tuple[Rows, dict[str, Tensor]]:
    """The rows of a call, and what its coordinates show without any walk, (N, T, H) each."""
    c = {name: x.detach().to(_exact(x)) for name, x in coordinates.items()}
    if cu_seqlens is None:
        mask = torch.ones(c["s"].shape[:2], dtype=torch.bool, device=c["s"].device)
    else:
        mask = mask_of(cu_seqlens)
        c = {name: unpack(x, mask) for name, x in c.items()}
    shown = {"alpha": c["log_alpha"].exp()}
    if isinstance(layer, ATPM):
        d = transport(s=c["s"], b=c["b"], rho=c["rho"])
        q = recall(q=c["q"], d=d, lam=c["lam"])
        anchor = d / d.norm(dim=-1, keepdim=True).clamp_min(torch.finfo(d.dtype).tiny)
        tangent = c["b"] - c["s"] * (c["s"] * c["b"]).sum(-1, keepdim=True)
        e = torch.cat([c["k"], c["v"]], -1)
        widths = (c["k"].shape[-1], c["v"].shape[-1])
        strengths = zip((c["beta_k"], c["beta_v"]), widths, strict=True)
        write = torch.cat([x[..., None].expand(*x.shape, width) for x, width in strengths], -1)
        erase = write
        shown |= {
            "beta_k": c["beta_k"],
            "beta_v": c["beta_v"],
            "rho": c["rho"],
            "lambda": c["lam"],
            "tau": tangent.norm(dim=-1),
            "angle": _degrees(c["s"], d),
            "recall_before": 1 - (c["q"] * anchor).sum(-1),
            "recall_after": 1 - (q * anchor).sum(-1),
        }
    else:
        q, d, e = c["q"], c["d"], c["e"]
        erase, write = c["erase"][..., None], c["write"][..., None]
        if isinstance(layer, (DeltaNet, GatedDeltaNet)):
            shown["beta"] = c["write"]
        else:
            shown |= {"erase": c["erase"], "write": c["write"]}
    shape = (len(mask), e.shape[2], d.shape[-1], e.shape[-1])
    before = e.new_zeros(shape) if memory is None else memory.detach().to(e.dtype)
    return Rows(q, c["s"], d, e, shown["alpha"], erase, write, mask, before), shown


def measured(layer: DeltaFamilyLayer, rows: Rows, shown: dict[str, Tensor]) -> dict[str, Tensor]:
    """All quantities of ``layer``, (N, T, H) each."""
    walked = rows.walk()
    found = dict(shown)
    if isinstance(layer, ATPM):
        views = walked.residual.split([layer.streams["k"], layer.streams["v"]], -1)
        found["residual_k"], found["residual_v"] = (view.norm(dim=-1) for view in views)
    else:
        found["residual"] = walked.residual.norm(dim=-1)
    found["read"] = walked.read.norm(dim=-1)
    found["state_norm"] = walked.norm
    return {name: found[name] for name in QUANTITIES if name in found}


def _degrees(s: Tensor, d: Tensor) -> Tensor:
    """The angle between s and d; by the tangent, which is exact also where they nearly agree."""
    along = (s * d).sum(-1)
    square = s.square().sum(-1).clamp_min(torch.finfo(s.dtype).tiny)
    across = (d - s * (along / square)[..., None]).norm(dim=-1) * square.sqrt()
    return torch.atan2(across, along).rad2deg()


def _exact(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)

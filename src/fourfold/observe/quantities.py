"""What can be seen of a memory at a token, and how it is worked out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from fourfold.layers import ATPM, DeltaNet, GatedDeltaNet
from fourfold.layers.delta_family import DeltaFamilyLayer
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


BLOCK, LEAST = 1024, 8
"""Tokens that are looked at together, of all sequences, and at the least of each."""


@dataclass(frozen=True)
class Rows:
    """Coordinates of the shared recurrence at T tokens of each of N sequences.

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
        """Every token's state, one after another; only norms and residuals are kept."""
        residual, norm = torch.empty_like(self.e), torch.empty_like(self.alpha)
        memory = self.memory
        for t, (foreseen, memory) in enumerate(self._states()):
            torch.sub(self.e[:, t], foreseen, out=residual[:, t])
            norm[:, t] = memory.flatten(-2).norm(dim=-1)
        return WalkedRows(residual, norm, memory)

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

    def answers(self, query: Tensor) -> Tensor:
        """What the state behind every token of the one row answers to the same query.

        Args:
            query: (H, S).

        Returns:
            (T, H, D), Eᵀ q.
        """
        found = [torch.einsum("hsd,hs->hd", memory[0], query) for _, memory in self._states()]
        return torch.stack(found)

    def _states(self) -> Iterator[tuple[Tensor, Tensor]]:
        """At each token, Ēᵀ s (N, H, D) and the state behind it (N, H, S, D), which the next token
        changes in place: new ones, between what is kept, would leave the heap full of holes.

        Behind the end of a shorter row nothing decays and nothing is written.
        """
        memory = self.memory.clone(memory_format=torch.contiguous_format)
        heads = memory.flatten(0, 1)
        for t in range(self.e.shape[1]):
            memory *= self.alpha[:, t, :, None, None]
            foreseen = torch.bmm(self.s[:, t].flatten(0, 1)[:, None], heads).view_as(self.e[:, t])
            change = self.write[:, t] * self.e[:, t] - self.erase[:, t] * foreseen
            heads.baddbmm_(self.d[:, t].flatten(0, 1)[..., None], change.flatten(0, 1)[:, None])
            yield foreseen, memory


@dataclass(frozen=True)
class WalkedRows:
    """What a walk found.

    Attributes:
        residual: (N, T, H, D), e − Ēᵀ s.
        norm: (N, T, H), ‖E‖.
        memory: (N, H, S, D) behind the last token.
    """

    residual: Tensor
    norm: Tensor
    memory: Tensor


@dataclass(frozen=True)
class Call:
    """What a layer was given in one call, one sequence behind the other.

    Attributes:
        layer: it.
        coordinates: (L, H, ·) each, of all tokens.
        offsets: (N + 1,), where each sequence starts.
        memory: (N, H, S, D) before it.
    """

    layer: DeltaFamilyLayer
    coordinates: dict[str, Tensor]
    offsets: Tensor
    memory: Tensor

    @classmethod
    def of(
        cls,
        layer: DeltaFamilyLayer,
        coordinates: dict[str, Tensor],
        memory: Tensor | None,
        cu_seqlens: Tensor | None,
    ) -> Call:
        """Of the arguments of ``DeltaFamilyLayer.remember``."""
        s = coordinates["s"]
        if cu_seqlens is None:
            cu_seqlens = torch.arange(len(s) + 1, device=s.device) * s.shape[1]
        flat = {name: x.detach().flatten(0, 1) for name, x in coordinates.items()}
        if memory is None:
            shape = (len(cu_seqlens) - 1, layer.num_heads, layer.address_dim, layer.columns)
            memory = s.new_zeros(shape, dtype=_exact(s))
        return cls(layer, flat, cu_seqlens, memory.detach().to(_exact(s)))

    def rows(self) -> Rows:
        """All tokens, a row for each sequence."""
        index, mask = self._places(torch.arange(len(self.memory)), 0, self._longest)
        return self._rows(index, mask, self.memory)[0]

    def measured(self, y: Tensor) -> Iterator[tuple[Tensor, dict[str, Tensor]]]:
        """All quantities of the layer, a block of tokens of every sequence at a time.

        Args:
            y: (L, H, D), what was read.

        Yields:
            places (l,) of l tokens among the L, and the quantities there, (l, H) each.
        """
        going_on, memory = torch.arange(len(self.memory)), self.memory
        size = max(LEAST, BLOCK // max(1, len(memory)))
        for start in range(0, self._longest, size):
            longer = (self.offsets.diff()[going_on.to(self.offsets.device)] > start).cpu()
            going_on, memory = going_on[longer], memory[longer.to(memory.device)]
            index, mask = self._places(going_on, start, min(start + size, self._longest))
            rows, found = self._rows(index, mask, memory)
            walked = rows.walk()
            memory = walked.memory
            if isinstance(self.layer, ATPM):
                views = walked.residual.split(
                    [self.layer.streams["k"], self.layer.streams["v"]], -1
                )
                found["residual_k"], found["residual_v"] = (view.norm(dim=-1) for view in views)
            else:
                found["residual"] = walked.residual.norm(dim=-1)
            found["state_norm"] = walked.norm
            places = index[mask]
            kept = {name: values[mask] for name, values in found.items()}
            kept["read"] = y[places].to(_exact(y)).norm(dim=-1)
            yield places, {name: kept[name] for name in QUANTITIES if name in kept}

    @property
    def _longest(self) -> int:
        lengths = self.offsets.diff()
        return int(lengths.max()) if lengths.numel() else 0

    def _places(self, sequences: Tensor, start: int, stop: int) -> tuple[Tensor, Tensor]:
        """Where tokens ``start`` to ``stop`` of some sequences stand, and which of them there are,
        (N, T) each."""
        sequences = sequences.to(self.offsets.device)
        first, end = self.offsets[sequences, None], self.offsets[sequences + 1, None]
        index = first + torch.arange(start, stop, device=self.offsets.device)
        mask = index < end
        return index.where(mask, 0), mask

    def _rows(self, index: Tensor, mask: Tensor, memory: Tensor) -> tuple[Rows, dict[str, Tensor]]:
        """Rows of the tokens at ``index``, and what their coordinates show without any walk,
        (N, T, H) each."""
        c = {name: _at(x, index, mask) for name, x in self.coordinates.items()}
        shown = {"alpha": c["log_alpha"].exp()}
        if isinstance(self.layer, ATPM):
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
            if isinstance(self.layer, (DeltaNet, GatedDeltaNet)):
                shown["beta"] = c["write"]
            else:
                shown |= {"erase": c["erase"], "write": c["write"]}
        return Rows(q, c["s"], d, e, shown["alpha"], erase, write, mask, memory), shown


def _at(x: Tensor, index: Tensor, mask: Tensor) -> Tensor:
    """(N, T, ...) of (L, ...), zero where the mask is false."""
    found = x[index].to(_exact(x))
    return found.masked_fill_(~mask.view(*mask.shape, *[1] * (x.ndim - 1)), 0)


def _degrees(s: Tensor, d: Tensor) -> Tensor:
    """The angle between s and d; by the tangent, which is exact also where they nearly agree."""
    along = (s * d).sum(-1)
    square = s.square().sum(-1).clamp_min(torch.finfo(s.dtype).tiny)
    across = (d - s * (along / square)[..., None]).norm(dim=-1) * square.sqrt()
    return torch.atan2(across, along).rad2deg()


def _exact(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)

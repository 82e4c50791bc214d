"""DeltaNet."""

from __future__ import annotations

from torch import Tensor, nn

from fourfold.layers.delta_family import DeltaFamilyLayer, unit


class DeltaNet(DeltaFamilyLayer):
    """The delta rule with unit keys and queries: nothing decays, only writing erases.

        E = E₋₁ + k (β (v − E₋₁ᵀ k))ᵀ        y = Eᵀ q / √S

    Args:
        hidden_size: size of x.
        num_heads: H.
        head_dim: S, size of keys and queries.
        value_dim: D, size of values.
        conv_size: width of the short convolution; 0 for none.
        norm_eps: epsilon of the output norm.
        chunk_size: of the operator's chunked form.

    Source: arXiv 2406.06484; its output is normalised but not gated.
    """

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
    ) -> None:
        super().__init__(
            hidden_size=hidden_size,
            num_heads=num_heads,
            streams={"q": head_dim, "k": head_dim, "v": value_dim},
            address_dim=head_dim,
            columns=value_dim,
            conv_size=conv_size,
            norm_eps=norm_eps,
            gate=None,
            chunk_size=chunk_size,
        )
        self.beta_proj = nn.Linear(hidden_size, num_heads, bias=False)
        self.reset_parameters()

    def coordinates(self, x: Tensor, streams: dict[str, Tensor]) -> dict[str, Tensor]:
        k = unit(streams["k"])
        beta = self.beta_proj(x).sigmoid()
        return {
            "q": unit(streams["q"]) * self.address_dim**-0.5,
            "s": k,
            "d": k,
            "e": streams["v"],
            "log_alpha": beta.new_zeros(beta.shape),
            "erase": beta,
            "write": beta,
        }

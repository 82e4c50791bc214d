"""A memory of one's own: what it writes and what it erases have strengths of their own.

    E = α E₋₁ + k (w v − f (α E₋₁)ᵀ k)ᵀ        y = Eᵀ q / √S

In Gated DeltaNet w and f are one. Here a token may add to what stands there (f near 0), put
something in its place (w = f), or only clear it (w near 0).

    fourfold --memory examples/own_memory.py prove two_strengths
    fourfold --memory examples/own_memory.py tasks run examples/own_memory.yaml --out runs/own
    fourfold --memory examples/own_memory.py tasks report runs/own
"""

import torch
import torch.nn.functional as F
from torch import nn

from fourfold import register_layer
from fourfold.layers import KeyValueLayer
from fourfold.layers.decay import Decay
from fourfold.models import sizes_of


class TwoStrengths(KeyValueLayer):
    """The map from x and its projections to the arguments of ``fourfold.ops.delta_rule``, which
    computes the recurrence in its fast forms."""

    def __init__(self, *, decay_init="published", decay_times=(4, 4096), **sizes):
        super().__init__(**sizes)
        self.decay = Decay(self.hidden_size, self.num_heads, decay_init, decay_times)
        self.strengths = nn.Linear(self.hidden_size, 2 * self.num_heads, bias=False)
        self.reset_parameters()

    def coordinates(self, x, streams):
        write, erase = self.strengths(x).sigmoid().chunk(2, -1)
        usual = self.revision(streams, log_alpha=self.decay(x)[0], beta=write)
        return usual | {"erase": erase}


def oracle(layer, x):
    """The equation, token by token, in the plainest way: what the layer is compared with."""
    streams, _ = layer.project(x, None, None)
    q = F.normalize(streams["q"], dim=-1) / layer.address_dim**0.5
    k, v = F.normalize(streams["k"], dim=-1), streams["v"]
    alpha = layer.decay(x)[0].exp()
    w, f = layer.strengths(x).sigmoid().chunk(2, -1)
    E = x.new_zeros(len(x), layer.num_heads, layer.address_dim, layer.columns)
    read = []
    for t in range(x.shape[1]):
        E = alpha[:, t, :, None, None] * E
        found = torch.einsum("bhsd,bhs->bhd", E, k[:, t])
        change = w[:, t, :, None] * v[:, t] - f[:, t, :, None] * found
        E = E + torch.einsum("bhs,bhd->bhsd", k[:, t], change)
        read.append(torch.einsum("bhsd,bhs->bhd", E, q[:, t]))
    return layer.finish(torch.stack(read, 1), x)


register_layer(
    "two_strengths",
    lambda config: TwoStrengths(
        **sizes_of(config),
        decay_init=config.decay_init,
        decay_times=config.decay_times or (4, 4096),
    ),
    oracle=oracle,
)

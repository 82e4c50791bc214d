"""Rivals of equal size."""

from __future__ import annotations

from typing import Any

import torch

from fourfold.models.configuration import FourfoldConfig
from fourfold.models.modeling import FourfoldForCausalLM


def count_parameters(config: FourfoldConfig) -> int:
    """Parameters of the model that ``config`` describes, without building it in memory."""
    with torch.device("meta"):
        return FourfoldForCausalLM(config).num_parameters()


def match_parameters(
    config: FourfoldConfig, parameters: int, *, tolerance: float | None = None
) -> FourfoldConfig:
    """``config`` with the feed-forward width that brings it closest to ``parameters``.

    The memory stays as it is; what it spares or costs goes to or comes from the feed-forward, whose
    size counts linearly.

    Args:
        tolerance: how far the closest may still be from ``parameters``, as a share of them.

    Raises:
        ValueError: everything but the feed-forward is already larger than that, or no width comes
            close enough.
    """
    fields: dict[str, Any] = config.to_dict()
    narrow, wide = (
        count_parameters(FourfoldConfig(**fields | {"intermediate_size": width}))
        for width in (1, 2)
    )
    width = 1 + round((parameters - narrow) / (wide - narrow))
    if width < 1:
        raise ValueError(
            f"{parameters} parameters are too few for {config.layer_types} of hidden_size "
            f"{config.hidden_size}: without a feed-forward it already has {2 * narrow - wide}."
        )
    found = narrow + (width - 1) * (wide - narrow)
    if tolerance is not None and abs(found - parameters) > tolerance * parameters:
        raise ValueError(
            f"No width of the feed-forward brings {config.layer_types} of hidden_size "
            f"{config.hidden_size} within {tolerance:.0%} of {parameters} parameters; the closest "
            f"has {found}."
        )
    return FourfoldConfig(**fields | {"intermediate_size": width})

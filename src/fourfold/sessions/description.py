"""What a session file says of itself, checked field by field."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveFloat

from fourfold.sessions.guard import GuardEvent


class SessionDescription(BaseModel):
    """The JSON description in a session file.

    Attributes:
        model_configuration: ``FourfoldConfig.identity`` of the model that made it.
        model_dtype, model_weights: type and SHA-256 of its weights.
        tokenizer: SHA-256 of the tokenizer.
        tokens_seen: tokens read and generated.
        created, saved: ISO 8601 times.
        max_state_norm: the guard's bound, None for no guard.
        guard_events: what the guard did.
    """

    model_config = ConfigDict(
        strict=True, extra="forbid", protected_namespaces=(), allow_inf_nan=False
    )

    model_configuration: dict[str, Any]
    model_dtype: str
    model_weights: str
    tokenizer: str
    tokens_seen: NonNegativeInt
    created: str
    saved: str
    max_state_norm: PositiveFloat | None
    guard_events: list[GuardEvent]

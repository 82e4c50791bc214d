"""One name for what transformers has called by two.

Up to 5.20, the last release for Python 3.10, transformers passes a model's memory along as
``past_key_values``; later it became ``cache``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from typing import Any, TypeVar

from transformers.modeling_outputs import CausalLMOutputWithPast

CACHE_NAME = (
    "cache"
    if any(field.name == "cache" for field in fields(CausalLMOutputWithPast))
    else "past_key_values"
)
"""What the installed transformers calls the memory in its outputs and arguments."""

Forward = TypeVar("Forward", bound=Callable[..., Any])


def accepts_past_key_values(forward: Forward) -> Forward:
    """Let ``forward`` take its argument ``cache`` under the other name as well."""

    @wraps(forward)
    def wrapped(self: Any, *args: Any, past_key_values: Any = None, **kwargs: Any) -> Any:
        if past_key_values is not None:
            if kwargs.get("cache") is not None:
                raise ValueError("cache and past_key_values are two names of one thing: give one.")
            kwargs["cache"] = past_key_values
        return forward(self, *args, **kwargs)

    return wrapped  # type: ignore[return-value]

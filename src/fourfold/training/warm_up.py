"""The warm-up of a run, which must end before the run does."""

from __future__ import annotations

from pydantic import BaseModel


def end_within(section: BaseModel, steps: int) -> None:
    """See that ``warmup_steps`` of a section of settings are fewer than ``steps``.

    What was not given is a tenth of the run at most.

    Raises:
        ValueError: what was given is not shorter than the run.
    """
    given: int = section.warmup_steps  # type: ignore[attr-defined]
    if "warmup_steps" not in section.model_fields_set:
        given = min(given, steps // 10)
        object.__setattr__(section, "warmup_steps", given)  # a section is frozen
    if given and given >= steps:
        raise ValueError(
            f"warmup_steps must be less than the {steps} steps of the run, or the rate never "
            f"reaches its peak; got {given}."
        )

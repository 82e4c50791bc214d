"""How far back a memory reaches and how near it comes, which may be drawn while training."""

from __future__ import annotations

from collections.abc import Sequence

import torch

DRAWS = ("call", "sequence")


def draw_delays(between: Sequence[int], draw: str, rows: int) -> int | list[int]:
    """A delay from ``between``, both ends included, by torch's own generator.

    Args:
        draw: "call" draws one for a layer's call, so that the layers of one step see several;
            "sequence" one for each of ``rows`` sequences.
    """
    low, high = between
    if draw == "call":
        return int(torch.randint(low, high + 1, ()))
    return torch.randint(low, high + 1, (rows,)).tolist()


def default_delays(window: int, delay: int) -> tuple[int, int]:
    """Least and greatest delay of a long reach while training beside a short one of ``window``.

    As published, where the delay is 64 and the window 256: so that what is too near for the one is
    always within the other.
    """
    return delay, max(delay, window)


def check_reach(
    window: int | None,
    delay: int,
    training_delay: Sequence[int] | None,
    delay_draw: str,
    *,
    prefix: str = "",
) -> None:
    """Refuse reaches that no memory can have.

    Args:
        window: how far back it goes, or None.
        delay: how near it comes.
        training_delay: least and greatest delay while training, or None.
        delay_draw: see ``draw_delays``.
        prefix: before the names in the messages.

    Raises:
        ValueError: a sentence that names the argument.
    """
    if window is not None and (not isinstance(window, int) or window < 1):
        raise ValueError(f"{prefix}window must be an integer from 1; got {window!r}.")
    if not isinstance(delay, int) or delay < 1:
        raise ValueError(f"{prefix}delay must be an integer from 1; got {delay!r}.")
    if training_delay is not None:
        whole = all(isinstance(value, int) for value in training_delay)
        if not whole or len(training_delay) != 2 or not 1 <= training_delay[0] <= training_delay[1]:
            raise ValueError(
                f"{prefix}training_delay must be the least and the greatest delay, integers from "
                f"1; got {training_delay!r}."
            )
    if delay_draw not in DRAWS:
        raise ValueError(
            f"{prefix}delay_draw must be one of {', '.join(DRAWS)}; got {delay_draw!r}."
        )

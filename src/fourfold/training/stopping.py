"""Ctrl-C and kind kills: finish the step, save, then stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stop:
    """Whether somebody asked to stop."""

    asked = False


@contextmanager
def stopping() -> Iterator[Stop]:
    """Take SIGINT and SIGTERM as a wish to stop; a second one stops at once."""
    stop = Stop()
    signals = (signal.SIGINT, signal.SIGTERM)
    if threading.current_thread() is not threading.main_thread():
        yield stop  # only the main thread may ask for signals
        return
    before = {number: signal.getsignal(number) for number in signals}

    def ask(number: int, frame: FrameType | None) -> None:
        stop.asked = True
        for each, handler in before.items():
            signal.signal(each, handler)

    for number in signals:
        signal.signal(number, ask)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

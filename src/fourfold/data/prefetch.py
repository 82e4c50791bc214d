"""Windows that are read, and tokenised, while the model is at work on those before them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

from fourfold.data.lanes import Lanes, Position, Window

LEAVE = 5.0
"""Seconds to wait for the thread at the end; a network that does not answer may hold it longer."""


class Prefetch(Iterator[Window]):
    """The windows of ``lanes``, of which a thread reads some ahead.

    What comes, and where reading stands after each window, is the same however many are read ahead:
    ``state`` is that after the last window that was taken, whatever the thread has read since. What
    reading raises is raised for the window that it was raised for.

    The thread is begun by the first window that is asked for, and ended by ``close``; what it had
    read is not lost by that.

    Args:
        lanes: no longer to be read by others.
        ahead: windows; 0 reads each when it is asked for, and there is no thread.
    """

    def __init__(self, lanes: Lanes, ahead: int) -> None:
        self._lanes, self._ahead = lanes, ahead
        self._position = lanes.position()
        self._read: deque[tuple[Window, Position]] = deque()
        self._fault: BaseException | None = None
        self._reading = self._closing = False
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def __next__(self) -> Window:
        if self._ahead == 0:
            window = next(self._lanes)
            self._position = self._lanes.position()
            return window
        with self._changed:
            self._begin()
            while not self._read and self._fault is None:
                self._changed.wait()
            if not self._read:
                assert self._fault is not None
                raise self._fault
            window, self._position = self._read.popleft()
            self._changed.notify_all()
        return window

    @property
    def position(self) -> Position:
        """After the last window that was taken."""
        return self._position

    def state(self) -> dict[str, Any]:
        """How far all lanes have come with the windows that were taken; JSON can hold it."""
        return self._position.state()

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from there; see ``Lanes.restore``.

        Raises:
            OSError, ValueError: as ``Lanes.restore``.
            RuntimeError: the thread still reads and does not end.
        """
        self.close()
        if self._thread is not None:
            raise RuntimeError("A window is still being read; another position cannot be taken.")
        self._read.clear()
        self._fault = None
        self._lanes.restore(state)
        self._position = self._lanes.position()

    def close(self) -> None:
        """End the thread, after the window that it is reading."""
        if self._thread is None:
            return
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(LEAVE)
        if not self._thread.is_alive():
            self._thread = None

    def _begin(self) -> None:
        """Have a thread that reads, unless there is nothing more to read."""
        self._closing = False
        if not self._reading and self._fault is None:
            self._reading = True
            # A daemon: a process whose thread is held up can end all the same.
            self._thread = threading.Thread(target=self._read_ahead, daemon=True, name="prefetch")
            self._thread.start()

    def _read_ahead(self) -> None:
        while True:
            with self._changed:
                while len(self._read) >= self._ahead and not self._closing:
                    self._changed.wait()
                if self._closing:
                    self._reading = False
                    return
            try:
                item = next(self._lanes), self._lanes.position()
            except BaseException as fault:  # to be raised where the window is asked for
                with self._changed:
                    self._fault, self._reading = fault, False
                    self._changed.notify_all()
                return
            with self._changed:
                self._read.append(item)
                self._changed.notify_all()

"""A model's memory as a thing of its own: saved, loaded, forked, rolled back, inspected."""

from fourfold.sessions.guard import GuardEvent, StateOverflowError
from fourfold.sessions.session import Mark, Session

__all__ = ["GuardEvent", "Mark", "Session", "StateOverflowError"]

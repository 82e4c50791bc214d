"""What the processes run that are killed while they save."""

from __future__ import annotations

import torch
from zoo import build

from fourfold import ByteTokenizer, Session

FIRST, SECOND = "the first text", "the second text, which is longer"


def save_for_ever(path: str, ready) -> None:
    """Save two sessions to one file in turn, until killed."""
    torch.set_num_threads(1)
    sessions = []
    for text in (FIRST, SECOND):
        session = Session(build("atpm", vocab_size=259), ByteTokenizer())
        session.read(text)
        sessions.append(session)
    sessions[0].save(path)
    ready.send("saved")
    while True:
        for session in reversed(sessions):
            session.save(path)

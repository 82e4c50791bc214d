"""A reading that answers by a rule, so that what a suite asks can be checked against its words."""

from __future__ import annotations

from collections.abc import Callable

from fourfold import ByteTokenizer

TOKENIZER = ByteTokenizer()


class Scripted:
    """In place of a ``Reading``: knows all that was read, and says what ``answer`` makes of it."""

    answer: Callable[[str], str]
    read: list[str]

    def __init__(self, text: str) -> None:
        self.text = text

    @classmethod
    def of(cls, model, tokens):
        return cls("").further(tokens)

    def further(self, tokens):
        text = self.text + bytes(tokens).decode()
        return type(self)(text)

    def nats(self, continuations):
        right = type(self).answer(self.text)
        type(self).read.append(self.text)
        return [
            0.0 if bytes(tokens).decode().rstrip("\n") == f" {right}" else float(len(tokens))
            for tokens in continuations
        ]

    def say(self, count, ends):
        return list(f" {type(self).answer(self.text)}".encode())[:count]


def scripted(rule: Callable[[str], str]) -> type[Scripted]:
    """A kind of reading that answers by ``rule``, and keeps in ``read`` what was read."""
    return type("Ruled", (Scripted,), {"answer": staticmethod(rule), "read": []})

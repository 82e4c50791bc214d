"""``fourfold chat``: a conversation whose memory can be saved, forked and rolled back."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from pathlib import Path

from rich.table import Table

from fourfold.cli.common import console, say
from fourfold.cli.models import open_session
from fourfold.sessions import Mark, Session

HELP = """\
/save [FILE]   write the memory to FILE, or to the session file
/fork FILE     go on in a copy that belongs to FILE; the memory so far stays in its own file
/rollback      forget the last exchange; again for the one before
/state         show what the memory consists of
/help          this list
/quit          save to the session file, if there is one, and leave (also Ctrl-D)"""


class Chat:
    """One conversation: the session, its file and the marks before each exchange."""

    def __init__(
        self,
        session: Session,
        path: Path | None,
        *,
        max_new_tokens: int,
        temperature: float,
    ) -> None:
        self.session, self.path = session, path
        self.max_new_tokens, self.temperature = max_new_tokens, temperature
        self.marks: list[Mark] = []

    def answer(self, text: str) -> None:
        """Read a line and print what the model goes on with."""
        mark = self.session.mark()
        self.marks.append(mark)
        pieces = self.session.stream(
            text + "\n",
            max_new_tokens=self.max_new_tokens,
            do_sample=self.temperature > 0,
            temperature=self.temperature or 1.0,
        )
        for piece in pieces:
            sys.stdout.write(piece)
            sys.stdout.flush()
        say("")
        if len(self.session.guard_events) > len(mark.guard_events):
            say(f"({len(self.session.guard_events)} guard events so far; see /state)")

    def greet(self) -> None:
        """What the user is told first."""
        seen = self.session.tokens_seen
        say(f"The model remembers {seen:,} tokens. /help lists the commands.")

    def converse(self) -> None:
        """Answer lines until the user leaves; an error is told and leaves the memory as it is."""
        while True:
            try:
                line = console.input("[bold]> [/]")
                if line.startswith("/"):
                    if not self.command(line):
                        return
                elif line:
                    self.answer(line)
            except EOFError:
                say("")
                return
            except KeyboardInterrupt:
                say("\n(stopped; /quit or Ctrl-D to leave)")
            except (ValueError, ArithmeticError, OSError) as error:
                say(str(error))

    def keep(self) -> None:
        """Save on leaving: to the session file or, if that fails, to a file that can be written."""
        if self.path is None:
            return
        try:
            self.save("")
        except (OSError, KeyboardInterrupt) as error:
            with tempfile.NamedTemporaryFile(suffix=".session", delete=False) as file:
                rescue = Path(file.name)
            self.session.save(rescue)
            say(f"{self.path} could not be written ({error}); the memory is in {rescue}.")

    def save(self, argument: str) -> None:
        """/save [FILE]"""
        path = Path(argument).expanduser() if argument else self.path
        if path is None:
            raise ValueError("/save needs a file: none was given with --session.")
        if path != self.path and path.exists():
            raise ValueError(f"{path} exists already and is not this conversation's file.")
        self.session.save(path)
        self.path = self.path or path
        say(f"Saved {self.session.tokens_seen:,} tokens' memory to {path}.")

    def fork(self, argument: str) -> None:
        """/fork FILE"""
        if not argument:
            raise ValueError("/fork needs a file for the copy.")
        path = Path(argument).expanduser()
        if path.exists():
            raise ValueError(f"{path} exists already; a fork does not replace another memory.")
        if self.path is not None:
            self.session.save(self.path)
        fork = self.session.fork()
        fork.save(path)
        left = f"; the memory so far stays in {self.path}" if self.path else ""
        self.session, self.path = fork, path
        say(f"Going on in {path}{left}.")

    def rollback(self) -> None:
        """/rollback"""
        if not self.marks:
            raise ValueError("There is no exchange to roll back in this conversation.")
        self.session.rollback(self.marks.pop())
        say(f"Rolled back to {self.session.tokens_seen:,} tokens.")

    def show_state(self) -> None:
        """/state"""
        session = self.session
        table = Table("tensor", "shape", "type", "norm")
        for name, tensor in session.state.items():
            norm = f"{float(tensor.double().norm()):.4g}" if tensor.is_floating_point() else ""
            table.add_row(name, str(tuple(tensor.shape)), str(tensor.dtype)[6:], norm)
        console.print(table)
        say(
            f"{session.tokens_seen:,} tokens seen; {session.nbytes:,} bytes; "
            f"{len(session.guard_events)} guard events; file: {self.path or 'none'}"
        )
        for event in session.guard_events[-5:]:
            say(
                f"  token {event.token}: layer {event.layer}, head {event.head}, "
                f"norm {event.norm:.3g} scaled back to {event.bound:.3g}"
            )

    def command(self, line: str) -> bool:
        """Carry out a /command; False to leave."""
        name, _, argument = line.partition(" ")
        argument = argument.strip()
        if name == "/quit":
            return False
        if name == "/save":
            self.save(argument)
        elif name == "/fork":
            self.fork(argument)
        elif name == "/rollback":
            self.rollback()
        elif name == "/state":
            self.show_state()
        elif name == "/help":
            say(HELP)
        else:
            raise ValueError(f"There is no {name}; /help lists the commands.")
        return True


def run_chat(*, model: Path, path: Path | None, max_new_tokens: int, temperature: float) -> None:
    """Read lines until /quit or the end of input; whatever ends it, the memory is saved.

    Raises:
        ValueError: the session file could not be written, or no model or session can be opened.
    """
    if path is not None and not os.access(path.absolute().parent, os.W_OK):
        raise ValueError(f"{path} cannot be written: its folder is missing or read-only.")
    known = path if path is not None and path.exists() else None
    session = open_session(model, known)
    chat = Chat(session, path, max_new_tokens=max_new_tokens, temperature=temperature)
    chat.greet()
    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        signal.signal(number, _leave)
    try:
        chat.converse()
    finally:
        chat.keep()


def _leave(number: int, frame: object) -> None:
    """End the process in order when it is told to stop or its terminal closes."""
    raise SystemExit(128 + number)

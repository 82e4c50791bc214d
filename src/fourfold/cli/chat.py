"""``fourfold chat``: a conversation whose memory can be saved, forked and rolled back."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

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
        console: Console,
        session: Session,
        path: Path | None,
        *,
        max_new_tokens: int,
        temperature: float,
    ) -> None:
        self.console, self.session, self.path = console, session, path
        self.max_new_tokens, self.temperature = max_new_tokens, temperature
        self.marks: list[Mark] = []

    def answer(self, text: str) -> None:
        """Read a line and print what the model goes on with."""
        mark = self.session.mark()
        try:
            for piece in self.session.stream(
                text + "\n",
                max_new_tokens=self.max_new_tokens,
                do_sample=self.temperature > 0,
                temperature=self.temperature or 1.0,
            ):
                sys.stdout.write(piece)
                sys.stdout.flush()
        except KeyboardInterrupt:
            self._say("\n(stopped)")
        self.marks.append(mark)
        self._say("")
        if self.session.guard_events[len(mark.guard_events) :]:
            self._say(f"({len(self.session.guard_events)} guard events so far; see /state)")

    def save(self, argument: str) -> None:
        """/save [FILE]"""
        path = Path(argument).expanduser() if argument else self.path
        if path is None:
            raise ValueError("/save needs a file: none was given with --session.")
        self.session.save(path)
        self.path = self.path or path
        self._say(f"Saved {self.session.tokens_seen:,} tokens' memory to {path}.")

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
        left = self.path or "nowhere: it has no file"
        self.session, self.path = fork, path
        self._say(f"Going on in {path}; the memory so far stays in {left}.")

    def rollback(self) -> None:
        """/rollback"""
        if not self.marks:
            raise ValueError("There is no exchange to roll back in this conversation.")
        self.session.rollback(self.marks.pop())
        self._say(f"Rolled back to {self.session.tokens_seen:,} tokens.")

    def show_state(self) -> None:
        """/state"""
        session = self.session
        table = Table("tensor", "shape", "type", "norm")
        for name, tensor in session.state.items():
            norm = f"{float(tensor.double().norm()):.4g}" if tensor.is_floating_point() else ""
            table.add_row(name, str(tuple(tensor.shape)), str(tensor.dtype)[6:], norm)
        self.console.print(table)
        self._say(
            f"{session.tokens_seen:,} tokens seen; {session.nbytes:,} bytes; "
            f"{len(session.guard_events)} guard events; file: {self.path or 'none'}"
        )
        for event in session.guard_events[-5:]:
            self._say(
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
            self._say(HELP)
        else:
            raise ValueError(f"There is no {name}; /help lists the commands.")
        return True

    def _say(self, text: str) -> None:
        self.console.print(text, markup=False, soft_wrap=True)


def run_chat(
    console: Console, *, model: Path, path: Path | None, max_new_tokens: int, temperature: float
) -> None:
    """Read lines until /quit or the end of input; then save, if there is a session file."""
    session = open_session(model, path)
    chat = Chat(console, session, path, max_new_tokens=max_new_tokens, temperature=temperature)
    console.print(
        f"The model remembers {session.tokens_seen:,} tokens. /help lists the commands.",
        markup=False,
    )
    while True:
        try:
            line = console.input("[bold]> [/]")
        except (EOFError, KeyboardInterrupt):
            console.print()
            break
        try:
            if line.startswith("/"):
                if not chat.command(line):
                    break
            elif line:
                chat.answer(line)
        except (ValueError, ArithmeticError, OSError) as error:
            console.print(f"{error}", markup=False, soft_wrap=True)
    if chat.path is not None:
        chat.save("")

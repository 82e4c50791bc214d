"""Tables and lists as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape

from fourfold.reports.tasks.table import Entry, Table


def table(content: Table) -> str:
    """A table that scrolls sideways where the page is narrow."""
    header = "".join(
        f"<th{_words(content, place)}>{_unbroken(escape(title))}</th>"
        for place, title in enumerate(content.header)
    )
    body = "\n".join(
        f"<tr{' class=foot' if number >= len(content.rows) - content.foot else ''}>"
        + "".join(_entry(entry, _words(content, place)) for place, entry in enumerate(row))
        + "</tr>"
        for number, row in enumerate(content.rows)
    )
    return (
        '<div class="scroll" tabindex="0"><table>\n'
        f"<thead><tr>{header}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>"
    )


def definitions(terms: Mapping[str, str]) -> str:
    """A list of terms, each with its text."""
    rows = (f"<dt>{escape(term)}</dt><dd>{escape(text)}</dd>" for term, text in terms.items())
    return "<dl>\n{}\n</dl>".format("\n".join(rows))


def bullets(lines: Iterable[str]) -> str:
    """A list of lines."""
    return "<ul>\n{}\n</ul>".format("\n".join(f"<li>{escape(line)}</li>" for line in lines))


def fold(title: str, content: str) -> str:
    """Something that is shown when its title is touched."""
    return f"<details><summary>{escape(title)}</summary>\n{content}\n</details>"


def paragraph(text: str) -> str:
    """A paragraph."""
    return f"<p>{escape(text)}</p>"


def _unbroken(title: str) -> str:
    """``title`` in lines that do not part a value from its name, as in "ρ = 0"."""
    return title.replace(" = ", "&nbsp;=&nbsp;")


def _words(content: Table, place: int) -> str:
    return ' class="words"' if place < content.words else ""


def _entry(entry: Entry, words: str) -> str:
    text = escape(entry.text)
    if entry.best:
        text = f"<b>{text}</b>"
    if entry.flag:
        text = f"<mark>{text}</mark>"
    if entry.notes:
        notes = " ".join(f"<span>{escape(note)}</span>" for note in entry.notes)
        text += f" <small>{notes}</small>"
    return f"<td{words}>{text}</td>"

"""Questions with a passage that answers each, from files as they are published."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from fourfold.evaluation.suites.files import content, json_of, kind, lines

_ARTICLES = re.compile(r"\b(a|an|the)\b")


@dataclass(frozen=True)
class Asked:
    """A question, the passage that answers it, and the answers that count as right."""

    question: str
    passage: str
    answers: tuple[str, ...]


def read_questions(path: Path) -> list[Asked]:
    """Questions of a file: .json in the form of SQuAD, .jsonl in that of open questions.

    SQuAD has ``data``, articles of ``paragraphs`` with a ``context`` and ``qas``, each of these
    with a ``question`` and ``answers`` that have a ``text``. Open questions have, a line each, a
    ``question``, ``answers``, and ``ctxs`` with a ``text`` and perhaps a ``title``, the first of
    which is the passage. Either may be compressed. Answers that the passage holds come first; a
    question whose passage holds none is left out.

    Raises:
        FileNotFoundError: nothing is there.
        OSError: the file cannot be read.
        ValueError: it has another form (line and field named), or holds no question.
    """
    reader = {".json": _squad, ".jsonl": _open}.get(kind(path))
    if reader is None:
        raise ValueError(f"{path} must end in .json (SQuAD) or .jsonl (open questions).")
    answered = []
    for asked in reader(path):
        words = plain(asked.passage)
        answers = [answer for answer in asked.answers if plain(answer)]
        held = [answer for answer in answers if within(words, answer)]
        if held:
            others = [answer for answer in answers if answer not in held]
            answered.append(Asked(asked.question, asked.passage, (*held, *others)))
    if not answered:
        raise ValueError(f"{path} holds no question whose passage answers it.")
    return answered


def contains(text: str, answers: tuple[str, ...]) -> bool:
    """Whether one of ``answers`` is said in ``text``, as ``plain`` words."""
    words = plain(text)
    return any(within(words, answer) for answer in answers)


def within(words: str, answer: str) -> bool:
    """Whether plain ``words`` hold an answer: whole words of it, where there are spaces."""
    said = plain(answer)
    if any(_spaceless(letter) for letter in said):
        return said in words
    return f" {said} " in f" {words} "


def _spaceless(letter: str) -> bool:
    """Whether a letter is of a script without spaces between words."""
    return unicodedata.east_asian_width(letter) in "WF" or "\u0e00" <= letter <= "\u0eff"


def plain(text: str) -> str:
    """``text`` without case, punctuation, articles and repeated spaces, as SQuAD compares it."""
    letters = (x for x in text.lower() if not unicodedata.category(x).startswith("P"))
    return " ".join(_ARTICLES.sub(" ", "".join(letters)).split())


class _Answer(BaseModel):
    text: str


class _Question(BaseModel):
    question: str
    answers: list[_Answer]


class _Paragraph(BaseModel):
    context: str
    qas: list[_Question]


class _Article(BaseModel):
    paragraphs: list[_Paragraph]


class _Squad(BaseModel):
    data: list[_Article]


class _Passage(BaseModel):
    text: str
    title: str = ""


class _OpenQuestion(BaseModel):
    question: str
    answers: list[str]
    ctxs: list[_Passage]


def _squad(path: Path) -> Iterator[Asked]:
    for article in json_of(content(path), _Squad, str(path)).data:
        for paragraph in article.paragraphs:
            for asked in paragraph.qas:
                answers = dict.fromkeys(answer.text for answer in asked.answers)
                yield Asked(asked.question, paragraph.context, tuple(answers))


def _open(path: Path) -> Iterator[Asked]:
    for place, line in lines(path):
        asked = json_of(line, _OpenQuestion, place)
        if asked.ctxs:
            first = asked.ctxs[0]
            passage = f"{first.title}\n{first.text}" if first.title else first.text
            yield Asked(asked.question, passage, tuple(asked.answers))

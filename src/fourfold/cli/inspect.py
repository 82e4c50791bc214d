"""``fourfold inspect``: a page of what a model's memories did, token by token."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fourfold.cli.common import plain_errors, say

if TYPE_CHECKING:
    from fourfold.models import FourfoldForCausalLM

ABLATED = 100
"""Examples by which heads are ranked."""

NAMES = {
    "atpm": "ATPM",
    "gated_deltanet": "Gated DeltaNet",
    "deltanet": "DeltaNet",
    "comba": "Comba",
    "lstm": "LSTM",
}
"""Layers that are called otherwise in prose than in a configuration."""

QUOTED = 40
"""Letters of a text by which a page is called."""


@plain_errors
def inspect(
    model: Annotated[Path, typer.Argument(help="Folder of a saved model.")],
    changes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[field=value …]", help="Of the task, like value_tokens=1."),
    ] = None,
    text: Annotated[str | None, typer.Option(help="Text to be read.")] = None,
    file: Annotated[Path | None, typer.Option(help="File of text to be read.")] = None,
    task: Annotated[str | None, typer.Option(help="Memory task to be read and answered.")] = None,
    example: Annotated[int, typer.Option(min=0, help="Which of the task's examples.")] = 0,
    question: Annotated[int, typer.Option(min=0, help="Which of its questions.")] = 0,
    split: Annotated[str, typer.Option(help="Split that the example is of.")] = "iid",
    session: Annotated[
        Path | None, typer.Option(help="Session file; the text is read behind it.")
    ] = None,
    mark: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=TEXT[@n]",
            help="Label TEXT as the event NAME, wherever it occurs, or its n-th occurrence alone.",
        ),
    ] = None,
    ablate: Annotated[
        bool, typer.Option("--ablate", help="Rank heads and coordinates by the exact match lost.")
    ] = False,
    layers: Annotated[
        str | None,
        typer.Option(metavar="0,3,…", help="Layers that are shown; the page is smaller."),
    ] = None,
    last: Annotated[int, typer.Option(min=1, help="Tokens that are shown at most.")] = 1024,
    out: Annotated[Path, typer.Option(help="The page.")] = Path("runs/inspect.html"),
) -> None:
    """Write one page, for any browser: every token's ρ, λ, β, what was read, what is readable."""
    from fourfold.files import write_atomically
    from fourfold.reports.inspection import page

    sources = [source for source in (text, file, task) if source is not None]
    if len(sources) > 1 or not (sources or session):
        raise ValueError("Give one of --text, --file and --task, or --session.")
    chosen = None if layers is None else _layers(layers)
    if task is not None:
        if session is not None or mark:
            raise ValueError("--session and --mark go with text, not with --task.")
        fields = tuple(changes or ())
        data = _task(model, task, fields, example, question, split, ablate, chosen, last)
    else:
        if changes or ablate:
            raise ValueError("Fields and --ablate go with --task: they need questions.")
        read = file.read_text(encoding="utf-8") if file is not None else text
        name = file.name if file is not None else None
        data = _text(model, read, name, session, tuple(mark or ()), chosen, last)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, page(data).encode())
    say(f"Page: {out}")


def _layers(given: str) -> list[int]:
    parts = [part.strip() for part in given.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise ValueError(f"layers must be numbers with commas between, like 0,3; got {given!r}.")
    return sorted({int(part) for part in parts})


def _task(
    folder: Path,
    name: str,
    changes: tuple[str, ...],
    number: int,
    question: int,
    split: str,
    ablate: bool,
    layers: Sequence[int] | None,
    last: int,
) -> dict[str, Any]:
    from fourfold.cli.models import open_weights
    from fourfold.evaluation.answers import check_symbols, decode
    from fourfold.observe.ablation import ablate as ablation
    from fourfold.observe.events import events_of
    from fourfold.observe.inspection import inspect_reading, many_readings
    from fourfold.observe.items import asked_items, stored_items
    from fourfold.settings import change_fields
    from fourfold.tasks import Source, make_task
    from fourfold.tasks.registry import check_split

    settings: dict[str, Any] = {}
    change_fields(settings, changes, like="value_tokens=1")
    task, of = make_task(name, settings), check_split(split)
    opened = open_weights(folder)
    check_symbols(opened, task)
    example = Source(task).example(of, number)
    if example.questions and question >= len(example.questions):
        raise ValueError(
            f"question must be less than {len(example.questions)}, the questions of this example; "
            f"got {question}."
        )
    asked = example.questions[question] if example.questions else None
    tokens, events = events_of(task, example, asked)
    words = [task.word(token) for token in tokens]
    about = f"Example {number} of the split {of}, at a load of {example.load}"
    about += f", with {', '.join(changes)}." if changes else "."
    lead = [about, _described(opened, folder, layers)]
    if asked is not None:
        said = decode(opened, [example])[question]
        answers = [" ".join(task.word(token) for token in part) for part in (said.said, said.right)]
        verdict = "right" if said.said == said.right else f"right is: {answers[1]}"
        lead[0] += f" The model answers: {answers[0]} ({verdict})."
    data = inspect_reading(
        opened,
        tokens,
        words,
        events,
        title=f"{_named(opened)} reads {name}, example {number}",
        lead=lead,
        items=[*asked_items(words, events), *stored_items(words, events)],
        around=many_readings(opened, task, split=of, layers=layers),
        layers=layers,
        last=last,
    )
    if ablate:
        data["ablation"] = ablation(opened, task, split=of, examples=ABLATED)
        examples = Source(task).examples(of, 0, ABLATED)
        questions = sum(len(each.questions) for each in examples)
        data["ablated"] = {"examples": ABLATED, "questions": questions}
    return data


def _text(
    folder: Path,
    text: str | None,
    name: str | None,
    session: Path | None,
    marks: tuple[str, ...],
    layers: Sequence[int] | None,
    last: int,
) -> dict[str, Any]:
    from fourfold.cli.models import open_session
    from fourfold.data.words import Words
    from fourfold.observe.inspection import inspect_reading
    from fourfold.observe.items import marked_items
    from fourfold.observe.marks import marked

    opened = open_session(folder, session)
    words = Words(opened.tokenizer)
    tokens = words.tokens(text) if text else []
    if not tokens and session is None:
        raise ValueError("The text holds no token.")
    shown, events = marked(words, tokens, marks)
    read = name or f"“{_quoted(text or '')}”"
    title = f"{_named(opened.model)} reads {read}"
    if not tokens:
        title = f"The memory of {_named(opened.model)}"
    lead = [_described(opened.model, folder, layers)]
    if session is not None:
        lead.append(f"Behind {opened.tokens_seen:,} tokens of {session.name}.")
    return inspect_reading(
        opened.model,
        tokens,
        shown,
        events,
        title=title,
        lead=lead,
        spaced=False,
        items=marked_items(events),
        cache=opened.cache,
        layers=layers,
        last=last,
    )


def _quoted(text: str) -> str:
    """The beginning of a text, in one line."""
    line = " ".join(text.split())
    return line if len(line) <= QUOTED else line[: QUOTED - 1].rstrip(" .,;:") + "…"


def _named(model: FourfoldForCausalLM) -> str:
    """Like "ATPM (2 layers)", or "ATPM + attention (12 layers)"."""
    kinds = [NAMES.get(kind, kind) for kind in dict.fromkeys(model.config.layer_types)]
    layers = model.config.num_hidden_layers
    return f"{' + '.join(kinds)} ({layers} layer{'s' if layers > 1 else ''})"


def _described(model: FourfoldForCausalLM, folder: Path, layers: Sequence[int] | None) -> str:
    from fourfold.planning.parameters import described

    kinds = model.config.layer_types
    text = f"Model {folder}: {described(kinds)}, {model.num_parameters():,} parameters."
    if layers is None:
        return text
    return text + f" Layers that are shown: {', '.join(map(str, layers))}, of {len(kinds)}."

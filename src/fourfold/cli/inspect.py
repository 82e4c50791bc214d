"""``fourfold inspect``: a page of what a model's memories did, token by token."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fourfold.cli.common import plain_errors, say

if TYPE_CHECKING:
    from fourfold.models import FourfoldForCausalLM

ABLATED = 100
"""Examples by which heads are ranked."""


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
        typer.Option(metavar="NAME=TEXT", help="Label wherever TEXT occurs as the event NAME."),
    ] = None,
    ablate: Annotated[
        bool, typer.Option("--ablate", help="Rank heads and coordinates by the exact match lost.")
    ] = False,
    last: Annotated[int, typer.Option(min=1, help="Tokens that are shown at most.")] = 1024,
    out: Annotated[Path, typer.Option(help="The page.")] = Path("runs/inspect.html"),
) -> None:
    """Write one page, for any browser: every token's ρ, λ, β, what was read, what is readable."""
    from fourfold.files import write_atomically
    from fourfold.reports.inspection import page

    sources = [source for source in (text, file, task) if source is not None]
    if len(sources) > 1 or not (sources or session):
        raise ValueError("Give one of --text, --file and --task, or --session.")
    if task is not None:
        if session is not None or mark:
            raise ValueError("--session and --mark go with text, not with --task.")
        data = _task(model, task, tuple(changes or ()), example, question, split, ablate, last)
    else:
        if changes or ablate:
            raise ValueError("Fields and --ablate go with --task: they need questions.")
        read = file.read_text(encoding="utf-8") if file is not None else text
        data = _text(model, read, session, tuple(mark or ()), last)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, page(data).encode())
    say(f"Page: {out}")


def _task(
    folder: Path,
    name: str,
    changes: tuple[str, ...],
    number: int,
    question: int,
    split: str,
    ablate: bool,
    last: int,
) -> dict[str, Any]:
    from fourfold.cli.models import open_weights
    from fourfold.evaluation.answers import check_symbols, decode
    from fourfold.observe.ablation import ablate as ablation
    from fourfold.observe.events import events_of
    from fourfold.observe.inspection import inspect_reading, many_readings
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
    lead = [f"{name}, example {number} of {of}, load {example.load}. {_described(opened)}"]
    if asked is not None:
        said = decode(opened, [example])[question]
        words = [[task.word(token) for token in part] for part in (said.said, said.right)]
        verdict = "right" if said.said == said.right else f"right is: {' '.join(words[1])}"
        lead.append(f"The model answers: {' '.join(words[0])} ({verdict}).")
    data = inspect_reading(
        opened,
        tokens,
        [task.word(token) for token in tokens],
        events,
        title=f"{folder.name} reads {name}",
        lead=lead,
        around=many_readings(opened, task, split=of),
        last=last,
    )
    if ablate:
        data["ablation"] = ablation(opened, task, split=of, examples=ABLATED)
    return data


def _text(
    folder: Path, text: str | None, session: Path | None, marks: tuple[str, ...], last: int
) -> dict[str, Any]:
    from fourfold.cli.models import open_session
    from fourfold.data.words import Words
    from fourfold.observe.inspection import inspect_reading
    from fourfold.observe.marks import marked

    opened = open_session(folder, session)
    words = Words(opened.tokenizer)
    tokens = words.tokens(text) if text else []
    if not tokens and session is None:
        raise ValueError("The text holds no token.")
    return inspect_reading(
        opened.model,
        tokens,
        *marked(words, tokens, marks),
        title=f"{folder.name} reads",
        lead=[_described(opened.model)]
        + ([f"Behind {opened.tokens_seen:,} tokens of {session.name}."] if session else []),
        spaced=False,
        cache=opened.cache,
        last=last,
    )


def _described(model: FourfoldForCausalLM) -> str:
    from fourfold.planning.parameters import described

    return f"{described(model.config.layer_types)}, {model.num_parameters():,} parameters."

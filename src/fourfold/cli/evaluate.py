"""``fourfold evaluate``: how well a model foresees text, and what its memory adds."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from fourfold.cli.common import console, given, keep, plain_errors, say

if TYPE_CHECKING:
    from fourfold.evaluation.language import LanguageScore


OF_TEXT = ("memory", "length", "lanes", "tokens", "text", "cache")
"""Options that only reading text has."""


@plain_errors
def evaluate(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(help="Folder of a saved model and its tokenizer.")],
    data: Annotated[
        list[Path],
        typer.Option(help="Text: .txt, .md, .jsonl, .parquet, or folders. Of a suite: its file."),
    ],
    changes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[field=value …]", help="Of a suite, like examples=50."),
    ] = None,
    suite: Annotated[
        str | None,
        typer.Option(help="Ask instead: knowledge, new-knowledge or icl; of any causal model."),
    ] = None,
    memory: Annotated[
        str,
        typer.Option(
            help="Where it starts empty: at every document, at every window, or (stream) only at "
            "the first, from which it is carried on over all of them, in order."
        ),
    ] = "document",
    length: Annotated[
        int, typer.Option(min=1, help="Tokens read at once; bounds the memory of window.")
    ] = 512,
    lanes: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Documents read side by side, each lane by a memory of its own; by default 8, "
            "with stream 1, so that one memory reads all.",
        ),
    ] = None,
    tokens: Annotated[
        int | None, typer.Option(min=1, help="Stop after so many; by default all are read.")
    ] = None,
    text: Annotated[str, typer.Option(help="Field of .jsonl or .parquet with the text.")] = "text",
    cache: Annotated[
        Path | None,
        typer.Option(help="Folder for the text as tokens; by default in the user's cache."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="File for the results, as JSON.")] = None,
) -> None:
    """Bits per byte and perplexity of text, and the loss by how much the memory had read before.

    On a GPU if there is one. With --suite, questions in place of text: see docs/evaluation.md.
    """
    if suite is not None:
        from fourfold.cli.suites import ask

        of_text = given(context, OF_TEXT)
        if of_text or len(data) > 1:
            raise ValueError(
                f"A suite takes one --data and field=value; got {', '.join(of_text) or 'several'}."
            )
        ask(suite, model, data[0], tuple(changes or ()), out)
        return
    if changes:
        raise ValueError(f"Fields are of a suite, and no --suite was given; got {changes[0]}.")
    from fourfold.benchmarks.machine import best_device, device_model
    from fourfold.cli.models import check_vocabulary, open_model
    from fourfold.data.lanes import check_memory
    from fourfold.data.prepare import prepare_whole
    from fourfold.data.report import Report, size_of
    from fourfold.data.store_order import StoreOrder
    from fourfold.evaluation.language import evaluate_text, lanes_for

    where = check_memory(memory)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
    opened, tokenizer = open_model(model)
    check_vocabulary(opened, tokenizer)
    device = best_device()
    opened.to(device)  # type: ignore[arg-type]
    with console.status("Preparing …"):
        store = prepare_whole(data, tokenizer, text=text, cache=cache)
    say(size_of("Text", store), *Report.of(None, store).left_out())
    lanes = lanes or lanes_for(where)
    with console.status("Reading …"):
        score = evaluate_text(
            opened,
            StoreOrder(store, seed=0, shuffle=False, epochs=1),
            memory=where,
            length=length,
            lanes=lanes,
            tokens=tokens,
        )
    _show(score)
    keep(
        out,
        {
            "configuration": opened.config.identity(),
            "parameters": opened.num_parameters(),
            "text": store.fingerprint,
            "documents": len(store),
            "memory": where,
            "length": length,
            "lanes": lanes,
            "device": device_model(device),
            **asdict(score),
        },
    )


def _show(score: LanguageScore) -> None:
    say(
        f"{score.bits_per_byte:.4f} bits per byte, perplexity {score.perplexity:,.2f} a token, "
        f"{score.nats:.4f} nats a token, {score.tokens:,} tokens."
    )
    table = Table("read before", header_style="bold")
    for title in ("tokens", "nats a token"):
        table.add_column(title, justify="right")
    for part in score.by_position:
        last = part.stop - 1
        before = f"{part.start:,}" + (f" to {last:,}" if last > part.start else "")
        table.add_row(before, f"{part.tokens:,}", f"{part.nats:.4f}")
    console.print(table)

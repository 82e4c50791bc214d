"""What was stored, where, and which of it a question asks for."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fourfold.observe.events import Event
from fourfold.observe.quantities import Rows

STORES = ("untouched write", "first write", "update", "value", "marked")
"""Events of tasks in which values are stored."""

VALUE = re.compile(r"v\d+")


@dataclass(frozen=True)
class Item:
    """Something that was stored.

    Attributes:
        event: that it is part of.
        places: tokens that store it, in their order; what can be read of it is the mean over them.
        label: that tells it from others.
        question: the token whose query asks for it; None where its own addresses do.
        role: of what a question asks for, "right", "before" (a value that stood there before) or
            "other", all else that was stored, of which the best counts; else "".
    """

    event: Event
    places: tuple[int, ...]
    label: str
    question: int | None = None
    role: str = ""

    def behind(self, cut: int) -> Item:
        """The same where the first ``cut`` tokens are left out; without places if they held it."""
        places = tuple(place - cut for place in self.places if place >= cut)
        asked = None if self.question is None else self.question - cut
        return replace(
            self, places=() if asked is not None and asked < 0 else places, question=asked
        )


def marked_items(events: Sequence[Event]) -> list[Item]:
    """Every span that a user marked."""
    spans: dict[Event, list[int]] = {}
    for place, event in enumerate(events):
        if event.kind:
            spans.setdefault(event, []).append(place)
    return [Item(event, tuple(places), event.item) for event, places in spans.items()]


def stored_items(words: Sequence[str], events: Sequence[Event]) -> list[Item]:
    """Every value that a task's statements store."""
    return [
        Item(event, (place,), word if event.item == word else f"{event.item} {word}".strip())
        for place, (word, event) in enumerate(zip(words, events, strict=True))
        if event.kind in STORES and VALUE.fullmatch(word)
    ]


def asked_items(words: Sequence[str], events: Sequence[Event]) -> list[Item]:
    """What each token of a task's question, and of its answer, asks for.

    The last token of the question asks for the first of the answer, and each of the answer for the
    next. Of an item that was written several times, all values are given that stood in that place,
    and beside them all others together, so that it can be seen which of them the question finds.
    """
    prompt = [place for place, event in enumerate(events) if event.kind == "question"]
    if not prompt:
        return []
    answer = [place for place, event in enumerate(events) if event.kind == "answer"]
    name = events[prompt[-1]].item
    stored = [item.places[0] for item in stored_items(words, events)]
    statements: dict[Hashable, list[int]] = {}
    for place in stored:
        if not name or events[place].item == name:
            # A question that names no item asks for all that was to be kept.
            statements.setdefault(events[place] if name else None, []).append(place)
    found = []
    for number, place in enumerate(answer or prompt[-1:]):
        asking, right = [prompt[-1], *answer][number], words[place]
        stood = [held[number] for held in statements.values() if number < len(held)]
        same = [held for each in statements.values() for held in each if words[held] == right]
        moved = [held for held in stored if words[held] == right] if name else []
        last = ([held for held in stood if words[held] == right] or same or moved)[-1:]
        before = [held for held in stood if words[held] != right] if name else []
        shown = sorted({*before, *last})
        found += [
            Item(
                events[held],
                (held,),
                f"{words[asking]} → {words[held]}",
                asking,
                "right" if held in last else "before",
            )
            for held in shown
        ]
        others = [held for held in stored if held not in shown and words[held] != right]
        if shown and others:
            label = f"{words[asking]} → others"
            found.append(Item(Event(""), tuple(others), label, asking, "other"))
    return found


def read_by(rows: Rows, item: Item) -> Tensor:
    """What the query of the token that asks for ``item`` finds of it at every token.

    The state behind each token is asked with q, the corrected query, of ``item.question``, and
    what comes back is compared with the entity that was stored, by the cosine: the layer
    normalises what is read, so that its length says nothing. At the asking token itself it is what
    was read there.

    Returns:
        (T, P, H) for the P places of the item, from −1 to 1; NaN before each was read.
    """
    assert item.question is not None
    asked = rows.q[:, item.question : item.question + 1].expand_as(rows.q)
    said = replace(rows, q=asked).walk().read[0]
    places = torch.tensor(item.places, device=rows.e.device)
    score = torch.cosine_similarity(said[:, None], rows.e[0, places], dim=-1)
    early = torch.arange(len(said), device=places.device)[:, None] < places
    return score.masked_fill(early[..., None], float("nan"))

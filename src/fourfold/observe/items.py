"""What was stored, where, and which of it a question asks for."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fourfold.observe.events import Event
from fourfold.observe.quantities import Rows

STORES = ("untouched write", "first write", "update", "repeat", "value", "marked")
"""Events of tasks in which something is stored."""

SYMBOL, VALUE = re.compile(r"[a-z]\d+"), re.compile(r"v\d+")


@dataclass(frozen=True)
class Item:
    """Something that was stored.

    Attributes:
        event: that it is part of.
        places: tokens that store it, in their order; what can be read of it is the mean over them.
        label: that tells it from others.
        question: the token whose query asks for it; None where its own addresses do.
        role: of what a question asks for, "right", "same" (another value of the same item) or
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
    """Every value that a task's statements store; of a statement without one, its last symbol."""
    statements: dict[Event, list[int]] = {}
    for place, (word, event) in enumerate(zip(words, events, strict=True)):
        if event.kind in STORES and SYMBOL.fullmatch(word):
            statements.setdefault(event, []).append(place)
    found = []
    for event, places in statements.items():
        for place in [place for place in places if VALUE.fullmatch(words[place])] or places[-1:]:
            word = words[place]
            label = word if event.item == word else f"{event.item} {word}".strip()
            found.append(Item(event, (place,), label))
    return sorted(found, key=lambda item: item.places)


def asked_items(words: Sequence[str], events: Sequence[Event]) -> list[Item]:
    """What each token of a task's last question, and of its answer, asks for.

    The last token of the question asks for the first of the answer, and each of the answer for the
    next. All values of the item that stood in that place are given, and beside them all others
    together, so that it can be seen which of them the question finds.
    """
    prompt = [place for place, event in enumerate(events) if event.kind == "question"]
    if not prompt:
        return []
    asking, name = prompt[-1], events[prompt[-1]].item
    stored = [item.places[0] for item in stored_items(words, events)]
    own = _own(stored, events, name)
    answer = [place for place in range(asking + 1, len(events)) if events[place].kind == "answer"]
    said = [words[place] for place in answer]
    if not said:
        # The answer was not read; what is right is what was stored last.
        said = [words[place] for place in own(0)[-1:]]
    moves = any(event.kind in ("move", "swap") for event in events)
    found = []
    for number, (place, right) in enumerate(zip([asking, *answer], said, strict=False)):
        stood = own(number)
        if right == name and not any(words[held] == right for held in stored):
            last = stood[-1:]  # what names the item is answered, and not stored itself
        else:
            everywhere = [held for held in stored if words[held] == right]
            mine = [held for held in everywhere if _is_of(events[held].item, name)]
            # A value that moved stands where another item was written.
            moved = everywhere if own(0) or moves else []
            last = ([held for held in stood if words[held] == right] or mine or moved)[-1:]
        same = [held for held in stood if name and words[held] != right]
        shown = sorted({*same, *last})
        found += [
            Item(
                events[held],
                (held,),
                f"{words[place]} → {words[held]}",
                place,
                "right" if held in last else "same",
            )
            for held in shown
        ]
        others = [held for held in stored if held not in shown and words[held] != right]
        if shown and others:
            label = f"{words[place]} → others"
            found.append(Item(Event(""), tuple(others), label, place, "other"))
    return found


def _own(stored: Sequence[int], events: Sequence[Event], name: str) -> Callable[[int], list[int]]:
    """Where what a question asks for was stored, by the number of the answer's token.

    Args:
        stored: tokens that store.
        name: of the item that the question names; "" asks for all that was stored, in its order.
    """
    if not name:
        return lambda number: list(stored[number : number + 1])
    statements: dict[Event, list[int]] = {}
    for place in stored:
        if _is_of(events[place].item, name):
            statements.setdefault(events[place], []).append(place)
    items = list(dict.fromkeys(event.item for event in statements))

    def own(number: int) -> list[int]:
        if len(items) > 1:  # an entity is asked for; each of its attributes is one token
            held = [x for event, x in statements.items() if event.item in items[number:][:1]]
            return [places[0] for places in held]
        return [places[number] for places in statements.values() if number < len(places)]

    return own


def _is_of(item: str, name: str) -> bool:
    """Whether an item is the one of a name, or an attribute of that entity."""
    return item == name or item.startswith(f"{name} ")


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
    said = rows.answers(rows.q[0, item.question])
    places = torch.tensor(item.places, device=rows.e.device)
    score = torch.cosine_similarity(said[:, None], rows.e[0, places], dim=-1)
    early = torch.arange(len(said), device=places.device)[:, None] < places
    return score.masked_fill(early[..., None], float("nan"))

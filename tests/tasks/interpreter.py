"""What is right, worked out from the words alone: knows nothing of how the tasks are made."""

from __future__ import annotations

from itertools import pairwise

NOTHING = ["nothing"]


def is_key(word: str) -> bool:
    return word[0] == "k"


def bindings(words: list[str]) -> list[tuple[str, list[str]]]:
    """Pairs of a key and the values behind it, in their order."""
    found: list[tuple[str, list[str]]] = []
    for word in words:
        if is_key(word):
            found.append((word, []))
        else:
            found[-1][1].append(word)
    return found


def histories(task: str, words: list[str]) -> dict[str, list[list[str]]]:
    """All that each key has held, what it holds now last; ["nothing"] for nothing."""
    held: dict[str, list[list[str]]] = {}
    if task in ("kv_recall", "overwrite"):
        for key, value in bindings(words):
            held.setdefault(key, []).append(value)
    elif task == "forget":
        start = words.index("forget") if "forget" in words else len(words)
        held = {key: [value] for key, value in bindings(words[:start])}
        for sign, key in zip(words[start::2], words[start + 1 :: 2], strict=True):
            assert sign == "forget"
            held[key].append(NOTHING)
    elif task == "rebind":
        signs = [place for place, word in enumerate(words) if word in ("move", "swap")]
        start = signs[0] if signs else len(words)
        held = {key: [value] for key, value in bindings(words[:start])}
        for place in signs:
            sign, a, b, done = words[place : place + 4]
            assert done == ";"
            one, other = held[a][-1], held.setdefault(b, [NOTHING])[-1]
            assert one != NOTHING
            assert (other == NOTHING) == (sign == "move")
            held[a].append(other)
            held[b].append(one)
    return held


def entities(words: list[str]) -> dict[str, list[list[str]]]:
    """All that each attribute of each key has been, what it is now last."""
    held: dict[str, list[list[str]]] = {}
    for key, values in bindings(words):
        if values[0][0] == "a":
            held[key][int(values[0][1:])].append(values[1])
        else:
            held[key] = [[value] for value in values]
    return held


def answer(task: str, words: list[str], asked: list[str]) -> list[str]:
    """The right answer to the question ``asked`` after ``words``."""
    if task == "copy":
        return [word for word in words if word[0] == "v"]
    if task == "selective_copy":
        return [word for mark, word in pairwise(words) if mark == "*"]
    if task == "reverse_recall":
        assert (asked[0], asked[-1]) == ("of", "=")
        (key,) = (key for key, value in bindings(words) if value == asked[1:-1])
        return [key]
    assert asked[0] == "?"
    key = asked[1]
    if task == "revise":
        return [past[-1] for past in entities(words)[key]]
    if task == "pointer_chase":
        assert set(words[1::3]) == {"->"}
        links = dict(zip(words[::3], words[2::3], strict=True))
        for hop in asked[2:]:
            assert hop == ">"
            key = links[key]
        return [key]
    return histories(task, words).get(key, [NOTHING])[-1]

"""How long the states of a trained model grow, and which of its tokens lengthen them most."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from random import Random

import torch

from fourfold.capacity.streams import Row, follow, norms_of
from fourfold.evaluation.mode import measuring
from fourfold.models import FourfoldCache, FourfoldForCausalLM
from fourfold.sessions.session import STRIDE

SIDE_BY_SIDE = 64
"""Pairs of tokens that are tried at once."""


def model_stream(
    model: FourfoldForCausalLM, name: str, tokens: Sequence[int], *, bound: float | None = None
) -> Iterator[Row]:
    """The largest norm of any head's state while a model reads a stream.

    Yields:
        stream, and what ``follow`` has.
    """

    def read(cache: FourfoldCache, start: int, stop: int) -> None:
        piece = torch.tensor([list(tokens[start:stop])], device=model.device)
        model(piece, cache=cache, logits_to_keep=1)

    with measuring(model):
        for row in follow(read, model.new_cache(), len(tokens), bound=bound):
            yield {"stream": name} | row


def worst_pair(model: FourfoldForCausalLM, *, pairs: int = 256, seed: int = 0) -> tuple[int, int]:
    """The two tokens that, taken in turn, lengthen a state of ``model`` most within 64 tokens.

    The worst of what is tried; there may be longer patterns that do more.

    Args:
        pairs: how many to try, drawn at random if there are more.
        seed: of the draw.
    """
    size = model.config.vocab_size
    if size * (size - 1) // 2 <= pairs:
        tried = list(combinations(range(size), 2))
    else:
        random = Random(seed)
        drawn = (random.sample(range(size), 2) for _ in range(pairs))
        tried = [(first, second) for first, second in drawn]
    found = []
    with measuring(model):
        for start in range(0, len(tried), SIDE_BY_SIDE):
            some = torch.tensor(tried[start : start + SIDE_BY_SIDE], device=model.device)
            cache = model.new_cache()
            model(some.repeat(1, STRIDE // 2), cache=cache, logits_to_keep=1)
            found += torch.stack(norms_of(cache)).amax(0).nan_to_num(torch.inf).tolist()
    first, second = tried[max(range(len(tried)), key=found.__getitem__)]
    return first, second

"""A conversation with a model whose memory outlives the process."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import (
    LogitsProcessorList,
    PreTrainedTokenizerBase,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from fourfold.models import FourfoldCache, FourfoldForCausalLM
from fourfold.sessions.description import SessionDescription
from fourfold.sessions.file import read_session_file, write_session_file
from fourfold.sessions.fingerprint import tokenizer_of, weights_of
from fourfold.sessions.guard import (
    GuardEvent,
    StateOverflowError,
    limit_state_norm,
    overflow_message,
)
from fourfold.sessions.restore import (
    check_finite,
    check_owner,
    restore_cache,
    restore_logits,
)

logger = logging.getLogger(__name__)

STRIDE = 64
"""The guard looks whenever the tokens seen are a multiple of this, however they came in. A state
grows at most twofold in two tokens, so 2³²-fold between two looks: far from overflow."""

PIECE = 512
"""Tokens that ``losses`` reads at once: the logits of a long text need not stand side by side."""

DEFAULT_BOUND = 1e6
"""Of a head's state, unless told otherwise."""

LARGEST_BOUND = 1e26
"""What can grow 2³²-fold, be read with a query of some hundreds, and still be a float32."""

_LOGITS = "next_logits"


@dataclass(frozen=True)
class Mark:
    """A moment of a session to return to; made by ``Session.mark``."""

    model: FourfoldForCausalLM
    cache: FourfoldCache
    next_logits: Tensor | None
    guard_events: tuple[GuardEvent, ...]


class Session:
    """One reader's memory: what a model has read, saved, forked, rolled back and asked.

    Args:
        model: a causal language model of this library; its weights are not changed.
        tokenizer: the tokenizer it was trained with.
        max_state_norm: bound on the Frobenius norm of each head's state, 10²⁶ at most. Whenever the
            tokens seen are a multiple of 64, a longer state is scaled back, and the event is logged
            and kept in ``guard_events``; in between it may pass the bound. None for no guard.

    Raises:
        TypeError: the model is of another library, or the bound is no number.
        ValueError: the tokenizer has tokens that the model does not know, or the bound is out of
            range.
    """

    def __init__(
        self,
        model: FourfoldForCausalLM,
        tokenizer: PreTrainedTokenizerBase,
        *,
        max_state_norm: float | None = DEFAULT_BOUND,
    ) -> None:
        if not isinstance(model, FourfoldForCausalLM):
            raise TypeError(f"model must be a FourfoldForCausalLM; got {type(model).__name__}.")
        if len(tokenizer) > model.config.vocab_size:
            raise ValueError(
                f"tokenizer has {len(tokenizer)} tokens, the model only {model.config.vocab_size}."
            )
        if max_state_norm is not None:
            if not isinstance(max_state_norm, (int, float)):
                raise TypeError(f"max_state_norm must be a number or None; got {max_state_norm!r}.")
            if not 0 < max_state_norm <= LARGEST_BOUND:
                raise ValueError(
                    f"max_state_norm must be positive and at most {LARGEST_BOUND:g}, or None; "
                    f"got {max_state_norm:g}."
                )
        self.model, self.tokenizer = model, tokenizer
        self.max_state_norm = None if max_state_norm is None else float(max_state_norm)
        self.guard_events: list[GuardEvent] = []
        self.created = _now()
        self._cache = model.new_cache()
        self._next_logits: Tensor | None = None

    @property
    def tokens_seen(self) -> int:
        """Tokens read and generated so far."""
        return self._cache.tokens_seen

    @property
    def state(self) -> dict[str, Tensor]:
        """The memory as named tensors ("layers.0.memory", …); not copies, so leave them as is."""
        return self._cache.named_tensors()

    @property
    def cache(self) -> FourfoldCache:
        """A copy of the memory, for the model itself to go on from; the session does not see it."""
        return self._cache.fork()

    @property
    def nbytes(self) -> int:
        """Bytes of the memory."""
        return self._cache.nbytes

    def read(self, text: str | Sequence[int]) -> int:
        """Take in a text, or token numbers; in pieces or at once gives the same memory.

        Returns:
            how many tokens that were.

        Raises:
            TypeError, ValueError: neither text nor token numbers of this model.
            StateOverflowError: without a guard, when a state overflows.
        """
        tokens = self._encode(text)
        self._advance(tokens)
        return len(tokens)

    @torch.no_grad()
    def losses(self, text: str | Sequence[int]) -> Tensor:
        """How many nats each token of a text would cost if it came next; nothing is remembered.

        Args:
            text: text or token numbers, as ``read`` takes them.

        Returns:
            (tokens,) float32 at least; without the first if nothing was read that could foresee it.

        Raises:
            TypeError, ValueError: neither text nor token numbers of this model.
        """
        tokens = torch.tensor(self._encode(text), dtype=torch.long, device=self.model.device)
        cache, before, found = self._cache.fork(), self._next_logits, []
        for piece in tokens.split(PIECE):
            logits = self.model(piece[None], cache=cache, use_cache=True).logits[0]
            if before is not None:
                logits = torch.cat([before[None], logits])
            precise = torch.promote_types(logits.dtype, torch.float32)
            expected = logits[:-1].to(precise)
            following = piece if before is not None else piece[1:]
            found.append(F.cross_entropy(expected, following, reduction="none"))
            before = logits[-1]
        return torch.cat(found) if found else torch.zeros(0, device=self.model.device)

    def generate(self, prompt: str | Sequence[int] = "", **options: Any) -> str:
        """Read the prompt and go on from there; what is generated is remembered as well.

        Takes the options of ``generate_tokens``.

        Returns:
            the new text.
        """
        return "".join(self.stream(prompt, **options))

    def stream(self, prompt: str | Sequence[int] = "", **options: Any) -> Iterator[str]:
        """``generate``, giving the text as it comes."""
        return self._decode(self.generate_tokens(prompt, **options))

    def generate_tokens(
        self,
        prompt: str | Sequence[int] = "",
        *,
        max_new_tokens: int = 64,
        do_sample: bool = False,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        generator: torch.Generator | None = None,
    ) -> Iterator[int]:
        """``generate``, giving the new token numbers as they come.

        Args:
            prompt: text or token numbers to read first; may be empty if something was read before.
            max_new_tokens: at most so many; the end-of-text token ends it sooner and is not read.
            do_sample: draw from the distribution; otherwise take the likeliest token.
            temperature, top_k, top_p: shape of the distribution, as in transformers.
            generator: source of randomness for do_sample.

        Raises:
            ValueError: nothing to go on from, or an option out of range.
            StateOverflowError: without a guard, when a state overflows.
        """
        if not isinstance(max_new_tokens, int) or max_new_tokens < 0:
            raise ValueError(f"max_new_tokens must be an integer from 0; got {max_new_tokens!r}.")
        warpers = _warpers(temperature, top_k, top_p) if do_sample else None
        self.read(prompt)
        if self._next_logits is None:
            raise ValueError("Nothing has been read yet: give a prompt to go on from.")
        return self._continue(max_new_tokens, warpers, generator)

    def _continue(
        self,
        max_new_tokens: int,
        warpers: LogitsProcessorList | None,
        generator: torch.Generator | None,
    ) -> Iterator[int]:
        ends = _end_tokens(self.model)
        for _ in range(max_new_tokens):
            if self._next_logits is None:
                raise ValueError("The session was rolled back to before anything was read.")
            if warpers is None:
                token = int(self._next_logits.argmax())
            else:
                logits = warpers(torch.empty(1, 0, dtype=torch.long), self._next_logits[None])
                token = int(torch.multinomial(logits.softmax(-1)[0], 1, generator=generator))
            if token in ends:
                return
            self._advance([token])
            yield token

    def _decode(self, tokens: Iterator[int]) -> Iterator[str]:
        """Text piece by piece; a character of several tokens is held back until it is whole.

        Each piece is decoded behind the one before it, for some tokenizers write a token in another
        way at the start of a text.
        """
        shown: list[int] = []
        held: list[int] = []
        for token in tokens:
            held.append(token)
            piece = self._behind(shown, held)
            # No character is longer than four tokens, so what is still broken then stays broken.
            if piece and (len(held) >= 4 or not piece.endswith("\ufffd")):
                yield piece
                shown, held = held, []
        if held and (piece := self._behind(shown, held)):
            yield piece

    def _behind(self, shown: list[int], held: list[int]) -> str:
        """What ``held`` adds to the text of ``shown``."""
        return self.tokenizer.decode(shown + held)[len(self.tokenizer.decode(shown)) :]

    def fork(self) -> Session:
        """A second session that goes on from here on its own; costs no memory until it does."""
        fork = Session(self.model, self.tokenizer, max_state_norm=self.max_state_norm)
        fork.created = self.created
        fork.rollback(self.mark())
        return fork

    def mark(self) -> Mark:
        """This moment, for ``rollback``; costs nothing but the memory it keeps alive."""
        return Mark(self.model, self._cache.fork(), self._next_logits, tuple(self.guard_events))

    def rollback(self, mark: Mark) -> None:
        """Return to a moment marked in this session, or in one with the same model.

        Raises:
            ValueError: the mark belongs to another model.
        """
        if mark.model is not self.model:
            raise ValueError("mark was made with another model; a memory fits only its own.")
        self._cache = mark.cache.fork()
        self._next_logits = mark.next_logits
        self.guard_events = list(mark.guard_events)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the memory to ``path``, replacing it atomically.

        Raises:
            OSError: it cannot be written; what stood there is as before.
            ValueError: the memory is not finite.
        """
        tensors = dict(self.state)
        if self._next_logits is not None:
            tensors[_LOGITS] = self._next_logits
        check_finite(tensors, "The memory")
        description = SessionDescription(
            model_configuration=self.model.config.identity(),
            model_dtype=str(self.model.dtype),
            model_weights=weights_of(self.model),
            tokenizer=tokenizer_of(self.tokenizer),
            tokens_seen=self.tokens_seen,
            created=self.created,
            saved=_now(),
            max_state_norm=self.max_state_norm,
            guard_events=self.guard_events,
        )
        write_session_file(path, tensors, description.model_dump_json())

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        model: FourfoldForCausalLM,
        tokenizer: PreTrainedTokenizerBase,
    ) -> Session:
        """The session that was saved at ``path``, for the model and tokenizer that made it.

        Raises:
            FileNotFoundError: no such file.
            ValueError: a sentence that says what is wrong: no session file, damaged, NaN inside, or
                of another model or tokenizer and in what they differ.
        """
        tensors, text = read_session_file(path)
        try:
            description = SessionDescription.model_validate_json(text)
        except ValueError as error:
            raise ValueError(f"{path} is no readable session file: {error}") from error
        check_owner(path, description, model, tokenizer)
        session = cls(model, tokenizer, max_state_norm=description.max_state_norm)
        session.created = description.created
        session.guard_events = description.guard_events
        next_logits = tensors.pop(_LOGITS, None)
        session._cache = restore_cache(path, tensors, description.tokens_seen, model)
        check_finite(tensors, str(path))
        if description.tokens_seen:
            session._next_logits = restore_logits(path, next_logits, model)
        return session

    def _encode(self, text: str | Sequence[int]) -> list[int]:
        if not isinstance(text, Sequence):
            raise TypeError(f"Text or a list of token numbers can be read; got {text!r}.")
        if isinstance(text, str):
            return self.tokenizer.encode(text, add_special_tokens=False)
        tokens = list(text)
        size = self.model.config.vocab_size
        if any(not isinstance(token, int) or not 0 <= token < size for token in tokens):
            raise ValueError(f"Token numbers must be integers from 0 to {size - 1}.")
        return tokens

    @torch.no_grad()
    def _advance(self, tokens: list[int]) -> None:
        """Read tokens up to each multiple of STRIDE, look at the state there, and go on.

        The session changes only when all of them were read.
        """
        cache, logits, events = self._cache.fork(), self._next_logits, []
        start = 0
        while start < len(tokens):
            end = start + STRIDE - cache.tokens_seen % STRIDE
            piece = torch.tensor([tokens[start:end]], device=self.model.device)
            outputs = self.model(piece, cache=cache, use_cache=True, logits_to_keep=1)
            logits = outputs.logits[0, -1]
            if not bool(torch.isfinite(logits).all()):
                raise StateOverflowError(overflow_message(cache.tokens_seen, "the output"))
            if self.max_state_norm is not None and cache.tokens_seen % STRIDE == 0:
                events += limit_state_norm(cache, self.max_state_norm)
            start = end
        for event in events:
            logger.warning(
                "State norm %.3g of layer %d, head %d, at token %d was scaled back to %.3g.",
                event.norm,
                event.layer,
                event.head,
                event.token,
                event.bound,
            )
        self._cache, self._next_logits = cache, logits
        self.guard_events.extend(events)


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def _end_tokens(model: FourfoldForCausalLM) -> set[int]:
    ends = model.config.eos_token_id
    return set(ends) if isinstance(ends, list) else set() if ends is None else {ends}


def _warpers(temperature: float, top_k: int | None, top_p: float | None) -> LogitsProcessorList:
    warpers = LogitsProcessorList()
    if temperature != 1.0:
        warpers.append(TemperatureLogitsWarper(float(temperature)))
    if top_k is not None:
        warpers.append(TopKLogitsWarper(top_k))
    if top_p is not None:
        warpers.append(TopPLogitsWarper(top_p))
    return warpers

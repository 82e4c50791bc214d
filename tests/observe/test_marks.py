"""Marks of a text, and the words that are shown for its tokens."""

from __future__ import annotations

import re

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from fourfold import ByteTokenizer
from fourfold.data.words import Words
from fourfold.observe.marks import marked

BYTES = Words(ByteTokenizer())
TEXT = "Ann lives in Paris. Bob lives in Paris too; Paris."


def places(events, name):
    return [place for place, event in enumerate(events) if event.kind == name]


def pairs():
    """A tokenizer of bytes and pairs of them, whose tokens end within letters."""
    rules = tokenizers.Tokenizer(tokenizers.models.BPE())
    rules.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    rules.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=270,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    rules.train_from_iterator(["là-bas, œuf “là”, 日本語 " * 50], trainer)
    return Words(PreTrainedTokenizerFast(tokenizer_object=rules))


@pytest.mark.parametrize("number", [1, 2, 3])
def test_one_occurrence_can_be_marked_alone(number):
    _, events = marked(BYTES, BYTES.tokens(TEXT), [f"place=Paris@{number}"])
    start = [match.start() for match in re.finditer("Paris", TEXT)][number - 1]
    assert places(events, "place") == list(range(start, start + 5))


def test_every_occurrence_is_an_event_of_its_own():
    _, events = marked(BYTES, BYTES.tokens("ParisParis"), ["place=Paris"])
    assert places(events, "place") == list(range(10))
    assert events[4] != events[5]
    assert len(set(events)) == 2


def test_a_text_that_ends_like_a_number_is_marked_with_a_number():
    text = "write to a@2, or b@2, or a@2"
    _, events = marked(BYTES, BYTES.tokens(text), ["mail=a@2@2"])
    assert places(events, "mail") == list(range(len(text) - 3, len(text)))


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        ("Paris", "A mark must be NAME=TEXT, like place=Paris, or NAME=TEXT@n"),
        ("place=", "A mark must be NAME=TEXT"),
        ("place=Rome@1", "The mark place=Rome@1 occurs nowhere"),
        ("place=Paris@0", "n of a mark must be from 1 to 3, as often as Paris occurs; got"),
        ("place=Paris@4", "n of a mark must be from 1 to 3, as often as Paris occurs; got"),
    ],
)
def test_a_mark_that_is_not_there_is_a_sentence(mark, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        marked(BYTES, BYTES.tokens(TEXT), [mark])


def test_a_letter_of_several_tokens_is_shown_once_and_marked_whole():
    text = "là-bas, œuf 😀 " * 30 + "Paris et là"
    tokens = BYTES.tokens(text)
    words, events = marked(BYTES, tokens, ["a=Paris", "b=là", "c=😀@2"])
    assert words[:4] == ["l", "à", "", "-"]
    raw = text.encode()
    for name, mark in (("a", "Paris"), ("b", "là")):
        found = re.finditer(mark.encode(), raw)
        assert places(events, name) == [p for m in found for p in range(m.start(), m.end())]
    start = [match.start() for match in re.finditer("😀".encode(), raw)][1]
    assert places(events, "c") == list(range(start, start + 4))


@settings(max_examples=60, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_the_words_of_bytes_are_the_text_letter_by_letter(text):
    tokens = BYTES.tokens(text)
    words, _ = marked(BYTES, tokens, [])
    assert [word for word in words if word] == list(text)
    assert len(words) == len(tokens)


def test_the_words_of_tokens_that_end_within_letters_are_the_text():
    words = pairs()
    text = "œuf “là-bas” 日本語, là œuf " * 8
    tokens = words.tokens(text)
    assert len(tokens) < len(text.encode())
    shown, events = marked(words, tokens, ["egg=œuf@3"])
    assert "".join(shown) == text
    assert "�" in "".join(words.text([token]) for token in tokens)
    found = places(events, "egg")
    assert found == list(range(found[0], found[-1] + 1))
    assert "œuf" in "".join(shown[found[0] : found[-1] + 1])

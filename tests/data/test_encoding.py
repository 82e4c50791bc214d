"""Tokens are those of the whole text, however it comes in and however long it is."""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from fourfold import ByteTokenizer
from fourfold.data import encoding
from fourfold.data.bpe import SPECIAL_TOKENS, train_bpe
from fourfold.data.encoding import SlowEncoder, encoder_of
from fourfold.data.tokenizers import end_of_text, load_tokenizer, vocabulary_size

SAMPLE = [
    "The cat sat on the mat, 1234 times.\n\n    return é + 日本語 😀\n" * 3,
    "the theme then " * 9,
]

texts = st.text(max_size=200) | st.lists(
    st.sampled_from(["the", " the", " ", "\n", "0", "é", "😀", "<|eos|>", "\x00"]), max_size=80
).map("".join)


@pytest.fixture(scope="module")
def bpe():
    return train_bpe(SAMPLE, 300)


def joined(pieces):
    return np.concatenate([np.empty(0, dtype=np.int64), *pieces])


def test_the_same_text_gives_the_same_tokenizer(bpe):
    again = train_bpe(iter(SAMPLE), 300)
    assert again.backend_tokenizer.to_str() == bpe.backend_tokenizer.to_str()
    assert len(bpe) == 300
    with pytest.raises(ValueError, match="vocab_size must be at least 259"):
        train_bpe(SAMPLE, 258)


@given(text=texts)
@settings(deadline=None)
def test_nothing_is_lost_and_no_text_is_a_special_token(bpe, text):
    for tokenizer in (bpe, ByteTokenizer()):
        (tokens,) = encoder_of(tokenizer).texts([text.encode()])
        assert tokenizer.decode(tokens.tolist()) == text
        assert not set(tokens.tolist()) & set(tokenizer.all_special_ids)
        assert tokenizer(text, add_special_tokens=False).input_ids == tokens.tolist()


@given(text=texts, cuts=st.lists(st.integers(0, 400), max_size=4))
@settings(deadline=None)
def test_pieces_give_what_the_whole_gives(bpe, text, cuts):
    data = text.encode()
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[start:stop] for start, stop in pairwise(places)]
    for encoder in (encoder_of(bpe), encoder_of(ByteTokenizer()), SlowEncoder(ByteTokenizer())):
        (whole,) = encoder.texts([data])
        assert joined(encoder.pieces(pieces)).tolist() == whole.tolist()


@pytest.mark.parametrize(
    "text", [SAMPLE[0] * 20, "日本" * 900, "a" * 3000, " " * 3000 + "x", "12" * 900]
)
def test_windows_of_a_long_text_meet_without_a_seam(bpe, monkeypatch, text):
    (whole,) = encoder_of(bpe).texts([text.encode()])
    for name, size in (("LONG", 1000), ("WINDOW", 512), ("OVERLAP", 128), ("WINDOWS", 3)):
        monkeypatch.setattr(encoding, name, size)
    found = joined(encoder_of(bpe).pieces([text.encode()]))
    assert bpe.decode(found.tolist()) == text
    assert found.tolist() == whole.tolist()
    (through_texts,) = encoder_of(bpe).texts([text.encode()])
    assert through_texts.tolist() == whole.tolist()


def test_long_texts_are_neither_cut_nor_warned_of(bpe, capfd):
    bpe.backend_tokenizer.enable_truncation(10)
    bpe.backend_tokenizer.enable_padding(length=500)
    bpe.model_max_length = 16
    slow = ByteTokenizer(model_max_length=16)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for encoder in (encoder_of(bpe), SlowEncoder(slow)):
            tokens = encoder.texts([b"the cat " * 100, b"x"])
            assert [len(tokens[0]) > 100, len(tokens[1])] == [True, 1]
    assert capfd.readouterr().err == ""


def test_a_trained_tokenizer_is_what_auto_tokenizer_loads(bpe, tmp_path):
    bpe.save_pretrained(tmp_path)
    for loaded in (load_tokenizer(str(tmp_path)), AutoTokenizer.from_pretrained(tmp_path)):
        assert loaded.special_tokens_map == SPECIAL_TOKENS
        assert end_of_text(loaded) == loaded.convert_tokens_to_ids("<|eos|>")
        assert vocabulary_size(loaded) == 300
        assert loaded.decode(loaded("<|eos|> é").input_ids) == "<|eos|> é"
    assert isinstance(load_tokenizer("bytes"), ByteTokenizer)
    assert vocabulary_size(ByteTokenizer()) == 259


def test_what_is_no_tokenizer_is_a_sentence(bpe, tmp_path):
    with pytest.raises(ValueError, match='must be "bytes", a folder with a saved tokenizer'):
        load_tokenizer(str(tmp_path))
    with pytest.raises(FileNotFoundError, match="There is no such folder"):
        load_tokenizer(str(tmp_path / "none"))
    bpe.save_pretrained(tmp_path)
    endless = AutoTokenizer.from_pretrained(tmp_path)
    endless.eos_token = None
    with pytest.raises(ValueError, match="must have an end-of-text token"):
        end_of_text(endless)

"""Bytes as tokens."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from fourfold import ByteTokenizer, FourfoldConfig

TOKENIZER = ByteTokenizer()


@settings(deadline=None)
@given(st.text())
def test_every_text_comes_back_as_it_was(text):
    ids = TOKENIZER(text).input_ids
    assert ids == list(text.encode())
    assert TOKENIZER.decode(ids) == text


def test_spelled_out_special_tokens_are_text():
    text = "a<|eos|><|pad|>b"
    assert TOKENIZER(text).input_ids == list(text.encode())
    assert TOKENIZER.decode(TOKENIZER(text).input_ids, skip_special_tokens=True) == text


def test_special_tokens_follow_the_bytes_and_can_be_skipped():
    assert (TOKENIZER.pad_token_id, TOKENIZER.bos_token_id, TOKENIZER.eos_token_id) == (
        256,
        257,
        258,
    )
    assert TOKENIZER.decode([257, 104, 105, 258]) == "<|bos|>hi<|eos|>"
    assert TOKENIZER.decode([257, 104, 105, 258], skip_special_tokens=True) == "hi"
    assert len(TOKENIZER) == FourfoldConfig().vocab_size == 259


def test_batches_are_padded_at_the_left():
    batch = TOKENIZER(["ab", "c"], padding=True)
    assert batch.input_ids == [[97, 98], [256, 99]]
    assert batch.attention_mask == [[1, 1], [0, 1]]


def test_saved_and_loaded_it_is_the_same(tmp_path):
    ByteTokenizer().save_pretrained(tmp_path)
    FourfoldConfig().save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert isinstance(loaded, ByteTokenizer)
    assert loaded("<|eos|>é").input_ids == list("<|eos|>é".encode())
    assert loaded.get_vocab() == TOKENIZER.get_vocab()


def test_surrogates_that_json_may_hold_are_read():
    assert TOKENIZER("\ud800").input_ids == [0xED, 0xA0, 0x80]

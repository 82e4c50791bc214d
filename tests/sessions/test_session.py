"""A memory that is read into, asked, forked, rolled back."""

from __future__ import annotations

import pytest
import tokenizers
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast
from zoo import KINDS, build, random_tokens

from fourfold import ByteTokenizer, Session

TOKENIZER = ByteTokenizer()
TEXT = "Alice lives in Paris. Bob lives in Rome. Alice moved to Berlin; naïve café. " * 3


def session_of(kind, **options):
    return Session(build(kind, vocab_size=259, eos_token_id=258), TOKENIZER, **options)


@pytest.fixture(params=KINDS)
def session(request):
    return session_of(request.param)


def assert_same_memory(session, other):
    assert session.tokens_seen == other.tokens_seen
    assert session.state.keys() == other.state.keys()
    for name, tensor in session.state.items():
        torch.testing.assert_close(tensor, other.state[name], rtol=0, atol=1e-5)
    torch.testing.assert_close(session._next_logits, other._next_logits, rtol=0, atol=1e-5)


def test_reading_equals_the_model_reading_at_once(session):
    tokens = random_tokens(1, 200)
    session.read(tokens[0].tolist())
    expected = session.model(tokens).logits[0, -1]
    torch.testing.assert_close(session._next_logits, expected, rtol=0, atol=1e-5)
    assert session.tokens_seen == 200


@settings(max_examples=15, deadline=None)
@given(
    kind=st.sampled_from(list(KINDS)),
    cuts=st.lists(st.integers(0, len(TEXT)), max_size=4).map(sorted),
)
def test_reading_in_pieces_equals_reading_at_once(kind, cuts):
    whole, pieces = session_of(kind), session_of(kind)
    count = whole.read(TEXT)
    parts = [TEXT[a:b] for a, b in zip([0, *cuts], [*cuts, len(TEXT)], strict=True)]
    assert sum(pieces.read(part) for part in parts) == count == len(TEXT.encode())
    assert_same_memory(pieces, whole)


def test_losses_of_a_text_are_those_of_reading_it_next_and_change_nothing(session):
    tokens = random_tokens(1, 700)
    logits = session.model(tokens, use_cache=False).logits[0]
    expected = F.cross_entropy(logits[:-1], tokens[0, 1:], reduction="none").detach()
    unread = session.losses(tokens[0].tolist())  # longer than a piece
    torch.testing.assert_close(unread, expected, rtol=0, atol=1e-4)
    session.read(tokens[0, :100].tolist())
    before = session.mark()
    found = session.losses(tokens[0, 100:].tolist())
    torch.testing.assert_close(found, expected[99:], rtol=0, atol=1e-4)
    assert session.tokens_seen == 100
    assert session._next_logits is before.next_logits
    assert session.losses("").shape == (0,)


def test_generation_is_greedy_and_remembered(session):
    prompt = random_tokens(1, 20)
    expected = session.model.generate(prompt, max_new_tokens=12, do_sample=False)[0, 20:].tolist()
    expected = [token for token in expected if token != TOKENIZER.eos_token_id]
    assert list(session.generate_tokens(prompt[0].tolist(), max_new_tokens=12)) == expected
    assert session.tokens_seen == 20 + len(expected)
    again = Session(session.model, TOKENIZER)
    again.read(prompt[0].tolist() + expected)
    assert_same_memory(session, again)


def test_generated_text_in_two_goes_equals_one():
    one, two = session_of("atpm"), session_of("atpm")
    text = one.generate(TEXT, max_new_tokens=30)
    assert two.generate(TEXT, max_new_tokens=11) + two.generate(max_new_tokens=19) == text


def test_a_fork_goes_its_own_way(session):
    session.read(TEXT)
    fork = session.fork()
    assert_same_memory(fork, session)
    fork.read("Something else.")
    untouched = Session(session.model, TOKENIZER)
    untouched.read(TEXT)
    assert_same_memory(session, untouched)
    assert session.generate(max_new_tokens=5) == untouched.generate(max_new_tokens=5)


def test_rollback_returns_to_a_mark_as_often_as_wanted(session):
    session.read(TEXT)
    mark = session.mark()
    first = session.generate("Where is Alice?", max_new_tokens=8)
    for _ in range(2):
        session.rollback(mark)
        assert session.tokens_seen == len(TEXT.encode())
        assert session.generate("Where is Alice?", max_new_tokens=8) == first


def test_a_mark_of_another_model_is_refused():
    one, other = session_of("atpm"), session_of("atpm")
    with pytest.raises(ValueError, match="another model"):
        one.rollback(other.mark())


def test_sampling_follows_its_generator():
    def draw(seed, **options):
        session = session_of("atpm")
        generator = torch.Generator().manual_seed(seed)
        return list(
            session.generate_tokens(
                TEXT, max_new_tokens=20, do_sample=True, generator=generator, **options
            )
        )

    assert draw(1) == draw(1) != draw(2)
    greedy = list(session_of("atpm").generate_tokens(TEXT, max_new_tokens=20))
    assert draw(1, top_k=1) == greedy == draw(2, temperature=1e-4)


def test_the_end_of_text_ends_generation_and_is_not_read():
    session = session_of("atpm")
    session.read(TEXT)
    session._next_logits = torch.nn.functional.one_hot(torch.tensor(258), 259).float()
    assert session.generate(max_new_tokens=5) == ""
    assert session.tokens_seen == len(TEXT.encode())


def test_a_character_of_several_bytes_is_streamed_whole():
    session = session_of("atpm")
    tokens = list("é€😀x".encode())
    assert list(session._decode(iter(tokens))) == ["é", "€", "😀", "x"]
    assert list(session._decode(iter(tokens[:4]))) == ["é", "\ufffd"]
    # Broken bytes are shown after four, not held back for ever.
    assert list(session._decode(iter([0xFF] * 9))) == ["\ufffd" * 4, "\ufffd" * 4, "\ufffd"]


def test_a_tokenizer_that_writes_the_first_word_differently_streams_the_same_text():
    vocabulary = {"▁a": 0, "▁b": 1, "c": 2}
    rules = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, "c"))
    rules.decoder = tokenizers.decoders.Metaspace()
    session = Session(build("atpm"), PreTrainedTokenizerFast(tokenizer_object=rules))
    assert "".join(session._decode(iter([0, 1, 2, 1]))) == session.tokenizer.decode([0, 1, 2, 1])


def test_a_state_holds_no_more_than_it_tells():
    session = session_of("atpm")
    session.read(TEXT)
    for tensor in session.state.values():
        assert tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()


def test_a_running_generation_notices_a_rollback_to_nothing():
    session = session_of("atpm")
    nothing = session.mark()
    tokens = session.generate_tokens(TEXT, max_new_tokens=5)
    next(tokens)
    session.rollback(nothing)
    with pytest.raises(ValueError, match="rolled back to before anything was read"):
        next(tokens)


def test_size_and_state_are_told():
    session = session_of("atpm")
    assert (session.tokens_seen, session.nbytes, session.state) == (0, 0, {})
    session.read("a")
    small = session.nbytes
    assert small == sum(x.numel() * x.element_size() for x in session.state.values())
    assert "layers.0.memory" in session.state
    session.read(TEXT)
    assert session.nbytes == small


def test_refusals_are_sentences():
    session = session_of("atpm")
    with pytest.raises(ValueError, match="Nothing has been read yet"):
        session.generate()
    with pytest.raises(ValueError, match="Token numbers must be integers from 0 to 258"):
        session.read([1, 259])
    with pytest.raises(ValueError, match="max_new_tokens must be an integer from 0"):
        session.generate("a", max_new_tokens=-1)
    with pytest.raises(ValueError, match=r"got 1\.5"):
        session.generate("a", max_new_tokens=1.5)
    assert session.tokens_seen == 0
    with pytest.raises(ValueError, match="tokenizer has 259 tokens, the model only 64"):
        Session(build("atpm"), TOKENIZER)
    with pytest.raises(TypeError, match="model must be a FourfoldForCausalLM; got Linear"):
        Session(torch.nn.Linear(1, 1), TOKENIZER)
    for bound in (0, -1.0, 1e30, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=r"max_state_norm must be positive and at most 1e\+26"):
            session_of("atpm", max_state_norm=bound)
    with pytest.raises(TypeError, match="max_state_norm must be a number or None; got 'x'"):
        session_of("atpm", max_state_norm="x")
    with pytest.raises(TypeError, match="Text or a list of token numbers can be read; got 5"):
        session.read(5)

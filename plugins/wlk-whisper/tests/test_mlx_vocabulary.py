"""mlx-whisper's ranks give the vocabulary that a tokenizer.json would."""

from __future__ import annotations

from pathlib import Path
import shutil

from faster_whisper.tokenizer import Tokenizer
from hypothesis import given
from hypothesis import strategies as st
import pytest
from tokenizers import Tokenizer as Vocabulary

pytest.importorskip("mlx.core", reason="needs wlk-whisper[mlx]", exc_type=ImportError)

from wlk_core import ModelNotFoundError
import wlk_whisper
from wlk_whisper.mlx_vocabulary import RankedVocabulary, vocabulary_of

DIGITS = Path(wlk_whisper.__file__).parent / "digits"
ROWS = 51865


@pytest.fixture(scope="module")
def ranked():
    """Return the vocabulary of a directory without one."""
    return vocabulary_of(DIGITS / "mlx", ROWS)


@pytest.fixture(scope="module")
def filed():
    """Return the same vocabulary, read from a file."""
    return Vocabulary.from_file(str(DIGITS / "ctranslate2" / "tokenizer.json"))


def both(ranked, filed, **stream):
    """Return the two tokenizers of a stream."""
    return [Tokenizer(vocabulary, True, **stream) for vocabulary in (ranked, filed)]


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_text_becomes_the_same_ids(ranked, filed, text):
    """In any script, and back again."""
    ids = ranked.encode(text, add_special_tokens=False).ids

    assert filed.encode(text, add_special_tokens=False).ids == ids
    assert text == ranked.decode(ids)


@given(st.lists(st.integers(0, 50363), max_size=12))
def test_ids_become_the_same_text(ranked, filed, ids):
    """Unfinished characters are replaced and special tokens left out alike."""
    assert filed.decode(ids) == ranked.decode(ids)


@pytest.mark.parametrize(
    "token",
    ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|su|>", "<|translate|>",
     "<|transcribe|>", "<|startofprev|>", "<|notimestamps|>"],
)  # fmt: skip
def test_special_tokens_have_the_same_ids(ranked, filed, token):
    """They are computed here and listed there."""
    assert filed.token_to_id(token) == ranked.token_to_id(token)


@pytest.mark.parametrize("token", ["<|yue|>", "<|nocaptions|>", "<|xx|>", "one"])
def test_a_token_that_is_not_special_has_no_id(ranked, token):
    """Cantonese came with large-v3, and has no token before."""
    assert ranked.token_to_id(token) is None


@pytest.mark.parametrize("language", ["en", "ja"])
def test_a_stream_is_prompted_and_spelt_the_same(ranked, filed, language):
    """What the decoder asks a tokenizer for does not depend on where it came from."""
    ours, theirs = both(ranked, filed, task="transcribe", language=language)
    text = [*ours.encode(" zero one, two 日本語"), ours.timestamp_begin + 3, ours.eot]

    for name in ("sot", "sot_prev", "eot", "no_speech", "no_timestamps", "timestamp_begin",
                 "sot_sequence", "non_speech_tokens"):  # fmt: skip
        assert getattr(theirs, name) == getattr(ours, name), name
    assert theirs.split_to_word_tokens(text) == ours.split_to_word_tokens(text)


def test_special_tokens_in_a_text_are_text(ranked):
    """A prompt cannot end the transcript."""
    ids = ranked.encode("<|endoftext|>", add_special_tokens=False).ids

    assert len(ids) > 1
    assert max(ids) < 50257


def test_the_decoder_places_special_tokens_itself(ranked):
    """Asking for them by another way is a mistake."""
    with pytest.raises(ValueError, match="add_special_tokens=False"):
        ranked.encode("one", add_special_tokens=True)


@pytest.mark.parametrize("rows", [51864, 51865, 51866])
def test_every_whisper_has_as_many_tokens_as_rows(tmp_path, rows):
    """English-only, multilingual, and from large-v3 on."""
    vocabulary = vocabulary_of(tmp_path, rows)

    assert rows == vocabulary.encoding.n_vocab
    assert (rows > 51865) == (vocabulary.token_to_id("<|yue|>") is not None)


def test_a_tokenizer_of_its_own_comes_first(tmp_path):
    """Fine-tuned models may have tokens of their own."""
    shutil.copy(DIGITS / "ctranslate2" / "tokenizer.json", tmp_path)

    assert not isinstance(vocabulary_of(tmp_path, 123), RankedVocabulary)


def test_a_damaged_tokenizer_of_its_own_is_never_replaced_by_whispers(tmp_path):
    """Its tokens may be others: the file is named, and what helps."""
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")

    with pytest.raises(ModelNotFoundError, match=r"tokenizer\.json cannot be read.*pull the model"):
        vocabulary_of(tmp_path, ROWS)


def test_a_vocabulary_that_is_not_whispers_needs_its_own_tokenizer(tmp_path):
    """The message names the file to put there."""
    with pytest.raises(ModelNotFoundError, match=r"vocabulary of 6608 rows.*tokenizer\.json"):
        vocabulary_of(tmp_path, 6608)

"""mlx-whisper's tiktoken ranks give the same ids as a tokenizer.json."""

from __future__ import annotations

from pathlib import Path
import shutil

from faster_whisper.tokenizer import Tokenizer
from hypothesis import given
from hypothesis import strategies as st
import pytest
from tokenizers import Tokenizer as HfTokenizer

pytest.importorskip("mlx.core", reason="needs wlk-whisper[mlx]", exc_type=ImportError)

from wlk_core import ModelNotFoundError
import wlk_whisper
from wlk_whisper.mlx.backend import TiktokenTokenizer, load_tokenizer

TOKENIZER_FILE = Path(wlk_whisper.__file__).parent / "digits" / "ctranslate2" / "tokenizer.json"
ROWS = 51865


def is_ordinary(text):
    """Return whether *text* contains no special token, which the file gives an id."""
    return "<|" not in text


@pytest.fixture(scope="module")
def ranked(tmp_path_factory):
    """Return the tokenizer of a directory without a tokenizer.json."""
    return load_tokenizer(tmp_path_factory.mktemp("empty"), ROWS)


@pytest.fixture(scope="module")
def from_file():
    """Return the same tokenizer, read from a file."""
    return HfTokenizer.from_file(str(TOKENIZER_FILE))


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40).filter(is_ordinary))
def test_text_becomes_the_same_ids(ranked, from_file, text):
    """Ids of any script are the same, and decode to the text."""
    ids = ranked.encode(text, add_special_tokens=False).ids

    assert from_file.encode(text, add_special_tokens=False).ids == ids
    assert ranked.decode(ids) == text


@given(st.lists(st.integers(0, 50363), max_size=12))
def test_ids_become_the_same_text(ranked, from_file, ids):
    """Both replace incomplete characters and leave special tokens out."""
    assert from_file.decode(ids) == ranked.decode(ids)


@pytest.mark.parametrize("language", ["en", "ja"])
def test_the_tokenizer_of_a_stream_is_the_same(ranked, from_file, language):
    """Decoding does not depend on the source of the tokenizer."""
    ours, theirs = (
        Tokenizer(hf_tokenizer, True, task="transcribe", language=language)
        for hf_tokenizer in (ranked, from_file)
    )
    text = [*ours.encode(" zero one, two 日本語"), ours.timestamp_begin + 3, ours.eot]

    for name in ("sot", "sot_prev", "eot", "no_speech", "no_timestamps", "timestamp_begin",
                 "sot_sequence", "non_speech_tokens"):  # fmt: skip
        assert getattr(ours, name) == getattr(theirs, name), name
    assert ours.split_to_word_tokens(text) == theirs.split_to_word_tokens(text)


@pytest.mark.parametrize("rows", [51864, 51865, 51866])
def test_every_whisper_has_as_many_tokens_as_rows(tmp_path, rows):
    """The three vocabularies are English-only, multilingual, and that since large-v3."""
    tokenizer = load_tokenizer(tmp_path, rows)

    assert tokenizer.encoding.n_vocab == rows
    assert (rows > 51865) == (tokenizer.token_to_id("<|yue|>") is not None)


def test_the_tokenizer_of_a_checkpoint_comes_first(tmp_path):
    """Fine-tuned models may have tokens of their own."""
    shutil.copy(TOKENIZER_FILE, tmp_path)

    assert not isinstance(load_tokenizer(tmp_path, 60_000), TiktokenTokenizer)


def test_another_vocabulary_than_whispers_needs_its_own_tokenizer(tmp_path):
    """The message names the missing file."""
    with pytest.raises(ModelNotFoundError, match=r"vocabulary has 6608 rows.*tokenizer\.json"):
        load_tokenizer(tmp_path, 6608)


def test_the_built_in_tokenizer_is_compared_with_the_config(tmp_path):
    """A model of other languages needs its own tokenizer file."""
    (tmp_path / "generation_config.json").write_text('{"no_timestamps_token_id": 50364}', "utf-8")

    with pytest.raises(ModelNotFoundError, match=r"built-in tokenizer of .* generation_config"):
        load_tokenizer(tmp_path, ROWS)

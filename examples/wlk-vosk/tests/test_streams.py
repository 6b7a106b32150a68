"""Streams of the whole vocabulary, and of phrases, of a published model."""

from pathlib import Path

import pytest

from wlk_conformance.testing import StreamDriver, load_clip
from wlk_core import ModelNotFoundError, OptionError, load_backend

AUDIO = load_clip("demo").audio


@pytest.fixture(scope="module")
def backend(model):
    """Return the backend, loaded once."""
    with load_backend("vosk", model) as loaded:
        yield loaded


def words_of(backend, *, chunk_seconds=1.0, **options):
    """Return the words of the demo's English digits in a new stream."""
    driver = StreamDriver(backend.create_processor(**options))
    driver.feed(AUDIO, chunk_seconds=chunk_seconds)
    driver.finish()
    return driver.tokens


def test_another_load_gives_the_same_words_and_probabilities(backend, model):
    """No dither is added, which would be random noise."""
    with load_backend("vosk", model) as other:
        assert words_of(backend) == words_of(other) != ()


@pytest.mark.parametrize("chunk_seconds", [0.032, 5.0])
def test_the_whole_vocabulary_is_decoded_alike_in_any_chunks(backend, chunk_seconds):
    """Audio is decoded in blocks of 0.2 s, however it arrives."""
    assert words_of(backend, chunk_seconds=chunk_seconds) == words_of(backend)


def test_a_recognizer_that_is_used_again_gives_the_same_times(backend, phrases):
    """Vosk counts the time of all audio that a recognizer decoded."""
    first = words_of(backend, phrases=phrases)

    assert [words_of(backend, phrases=phrases) for _ in range(5)] == [first] * 5


def test_only_phrases_are_recognised(backend):
    """The words of another stream do not matter."""
    words_of(backend)

    words = {token.text.strip() for token in words_of(backend, phrases=" 원 ,세븐,")}
    assert words == {"원", "세븐"}


def test_a_phrase_of_unknown_words_is_refused(backend):
    """The error names the words that the vocabulary lacks."""
    with pytest.raises(OptionError, match="lacks 나인, qq of the phrases"):
        backend.create_processor(phrases="원, 세븐 나인, qq")


def test_a_damaged_graph_is_refused(model, tmp_path):
    """Vosk itself notices only when the first stream decodes."""
    for path in Path(model).iterdir():
        (tmp_path / path.name).symlink_to(path)
    (tmp_path / "graph").unlink()
    (tmp_path / "graph").mkdir()
    for path in Path(model, "graph").iterdir():
        (tmp_path / "graph" / path.name).symlink_to(path)
    (tmp_path / "graph/HCLr.fst").unlink()
    (tmp_path / "graph/HCLr.fst").write_bytes(b"damaged")

    with pytest.raises(ModelNotFoundError, match="Vosk could not load"):
        load_backend("vosk", str(tmp_path))


def test_the_language_is_that_of_the_model(backend):
    """It is read from the model's name, and no other can be chosen."""
    assert {token.detected_language for token in words_of(backend, language="ko")} == {"ko"}
    with pytest.raises(OptionError, match="vosk recognises ko only"):
        backend.create_processor(language="en")

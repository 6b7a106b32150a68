"""Headers are read as they are written, and only where they are complete."""

from __future__ import annotations

import pytest

from wlk_qwen3_simul.engine.prompt import MAX_HEADER_TOKENS, ChatPrompt, Header, read_header
from wlk_qwen3_simul.languages import LANGUAGES


@pytest.mark.parametrize("code", LANGUAGES)
def test_a_header_is_read_as_it_is_written(vocabulary, code):
    """Each of the thirty languages is read back from its own header."""
    header = ChatPrompt.build(vocabulary).header(code)
    text = vocabulary.encode("hello")

    assert Header(len(header), code) == read_header([*header, *text], vocabulary)


@pytest.mark.parametrize("name", ["None", "Klingon", ""])
def test_an_unknown_language_has_no_code(vocabulary, name):
    """The model writes None for audio without speech; unknown names are not guessed at."""
    text_start = vocabulary.special_ids["<asr_text>"]
    ids = [*vocabulary.encode(f"language {name}"), text_start]

    assert len(ids) <= MAX_HEADER_TOKENS
    assert Header(len(ids), None) == read_header(ids, vocabulary)


def test_output_without_the_start_of_a_text_has_no_header(vocabulary):
    """Neither an incomplete header nor a text without one is a transcript."""
    assert read_header(vocabulary.encode("language Eng"), vocabulary) is None
    assert read_header((), vocabulary) is None
    assert read_header(vocabulary.encode("x" * 99), vocabulary) is None

"""The ids around the audio are those that the model was trained with."""

from __future__ import annotations

import numpy as np
import pytest

from wlk_qwen3_simul.checkpoint import BUNDLED
from wlk_qwen3_simul.engine.frames import token_count
from wlk_qwen3_simul.engine.prompt import MAX_HEADER_TOKENS, ChatPrompt, read_header
from wlk_qwen3_simul.engine.vocabulary import Vocabulary
from wlk_qwen3_simul.languages import LANGUAGES

needs_digits = pytest.mark.skipif(
    not (BUNDLED["digits"] / "tokenizer.json").is_file(),
    reason="the digits checkpoint is not built",
)


def ours(language, hotwords, *, audio):
    """Return all ids before the text, with *audio* as the audio tokens."""
    prompt = ChatPrompt.build(Vocabulary.read(BUNDLED["digits"]), hotwords)
    return [*prompt.before_audio, *audio, *prompt.after_audio, *prompt.header(language)]


@needs_digits
@pytest.mark.parametrize(
    ("language", "hotwords"), [(None, ""), (None, "Ann, Köln"), ("de", "Ann, Köln"), ("yue", "")]
)
def test_the_ids_are_those_of_a_transcription_request_of_transformers(language, hotwords):
    """Turns, hotwords and header agree, and so does the number of audio tokens."""
    pytest.importorskip("torch", reason="needs wlk-qwen3-simul[torch]")
    transformers = pytest.importorskip("transformers", reason="needs wlk-qwen3-simul[torch]")
    processor = transformers.Qwen3ASRProcessor.from_pretrained(BUNDLED["digits"])
    request = processor.apply_transcription_request(
        np.zeros(24_000, dtype=np.float32),
        language=None if language is None else LANGUAGES[language],
        prompt=hotwords or None,
    )
    audio = [processor.audio_token_id] * token_count(150)

    assert ours(language, hotwords, audio=audio) == request["input_ids"][0].tolist()


@pytest.mark.parametrize("code", LANGUAGES)
def test_a_header_is_read_as_it_is_written(vocabulary, code):
    """Each of the thirty languages is read back from its own header."""
    header = ChatPrompt.build(vocabulary).header(code)
    text = vocabulary.encode("hello")

    assert read_header([*header, *text], vocabulary) == (len(header), code)


@pytest.mark.parametrize("name", ["None", "Klingon", ""])
def test_an_unknown_language_has_no_code(vocabulary, name):
    """The model emits None for audio without speech; unknown names are not guessed."""
    text_start = vocabulary.special_ids["<asr_text>"]
    ids = [*vocabulary.encode(f"language {name}"), text_start]

    assert len(ids) <= MAX_HEADER_TOKENS
    assert read_header(ids, vocabulary) == (len(ids), None)


@pytest.mark.parametrize("text", ["language Eng", "", "x" * 99])
def test_output_without_the_start_of_a_text_has_no_header(vocabulary, text):
    """Neither an incomplete header nor text without a header is a transcript."""
    assert read_header(vocabulary.encode(text), vocabulary) is None

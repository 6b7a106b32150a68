"""The ids around the audio, and the header in front of the text."""

from __future__ import annotations

import numpy as np
import pytest

from wlk_qwen3_simul.audio.frames import token_count
from wlk_qwen3_simul.languages import LANGUAGES, code_of
from wlk_qwen3_simul.loading import BUNDLED
from wlk_qwen3_simul.text.header import MOST_TOKENS, Header, read_header
from wlk_qwen3_simul.text.prompt import PromptBuilder
from wlk_qwen3_simul.text.vocabulary import Vocabulary


def spelt(vocabulary, ids):
    """Return ids as text, marks included."""
    names = {number: mark for mark, number in vocabulary.marks.items()}
    told = (names[one].encode() if one in names else vocabulary.bytes_of(one) for one in ids)
    return b"".join(told).decode("utf-8")


@pytest.mark.parametrize("hotwords", ["", "Ann, Köln"])
def test_the_turns_are_those_the_model_was_trained_with(vocabulary, hotwords):
    """System, user with the audio, assistant; hotwords stand in the system turn."""
    prompt = PromptBuilder.of(vocabulary, hotwords)
    system = f"<|im_start|>system\n{hotwords}<|im_end|>\n"

    assert system + "<|im_start|>user\n<|audio_start|>" == spelt(vocabulary, prompt.before)
    assert "<|audio_end|><|im_end|>\n<|im_start|>assistant\n" == spelt(vocabulary, prompt.after)


def test_the_header_forces_a_language_by_its_name(vocabulary):
    """A language that is to be detected is introduced by the model itself."""
    prompt = PromptBuilder.of(vocabulary)

    assert "language German<asr_text>" == spelt(vocabulary, prompt.header("de"))
    assert () == prompt.header(None)


@pytest.mark.parametrize("code", LANGUAGES)
def test_a_header_is_read_as_it_is_written(vocabulary, code):
    """Thirty languages, there and back."""
    header = PromptBuilder.of(vocabulary).header(code)
    text = vocabulary.encode("hello")

    assert Header(len(header), code) == read_header([*header, *text], vocabulary)


def test_no_language_is_no_language(vocabulary):
    """The model writes None where it hears no speech; unknown names are not guessed at."""
    mark = vocabulary.marks["<asr_text>"]
    for name in ("None", "Klingon", ""):
        ids = [*vocabulary.encode(f"language {name}"), mark]
        found = read_header(ids, vocabulary)
        if len(ids) <= MOST_TOKENS:
            assert Header(len(ids), None) == found


def test_what_was_not_introduced_is_no_header(vocabulary):
    """Incomplete, or a text without a beginning: neither is a transcript."""
    assert read_header(vocabulary.encode("language Eng"), vocabulary) is None
    assert read_header((), vocabulary) is None
    assert read_header(vocabulary.encode("x" * 99), vocabulary) is None


def test_there_are_thirty_languages_and_every_name_has_one_code():
    """As the model card lists them."""
    assert 30 == len(LANGUAGES) == len(set(LANGUAGES.values()))
    assert all(code == code_of(name) for code, name in LANGUAGES.items())
    assert "fil" == code_of(" filipino ")
    assert code_of("None") is None


needs_digits = pytest.mark.skipif(
    not (BUNDLED["digits"] / "tokenizer.json").is_file(),
    reason="the digits checkpoint is not built",
)
ASKED = pytest.mark.parametrize(
    ("language", "hotwords"),
    [(None, ""), (None, "Ann, Köln"), ("en", ""), ("de", "Ann, Köln"), ("yue", "")],
    ids=[
        "detected",
        "detected with hotwords",
        "forced",
        "forced with hotwords",
        "of three letters",
    ],
)


def ours(language, hotwords, *, audio):
    """Return all ids in front of the text, *audio* in the place of what is heard."""
    prompt = PromptBuilder.of(Vocabulary.read(BUNDLED["digits"]), hotwords)
    return [*prompt.before, *audio, *prompt.after, *prompt.header(language)]


@needs_digits
@ASKED
def test_the_ids_are_those_of_a_transcription_request_of_transformers(language, hotwords):
    """Turns, hotwords, header, and as many places for the audio as the encoder fills."""
    pytest.importorskip("torch", reason="needs wlk-qwen3-simul[torch]")
    transformers = pytest.importorskip("transformers", reason="needs wlk-qwen3-simul[torch]")
    processor = transformers.Qwen3ASRProcessor.from_pretrained(BUNDLED["digits"])
    asked = processor.apply_transcription_request(
        np.zeros(24_000, dtype=np.float32),
        language=None if language is None else LANGUAGES[language],
        prompt=hotwords or None,
    )
    audio = [processor.audio_token_id] * token_count(150)

    assert ours(language, hotwords, audio=audio) == asked["input_ids"][0].tolist()


@needs_digits
@ASKED
def test_the_ids_are_those_of_mlx_qwen3_asr(language, hotwords):
    """Whose builder of prompts is that of its own transcriber."""
    theirs = pytest.importorskip("mlx_qwen3_asr.tokenizer", reason="needs wlk-qwen3-simul[mlx]")
    tokenizer = theirs.Tokenizer(str(BUNDLED["digits"]))
    name = None if language is None else LANGUAGES[language]
    asked = tokenizer.build_prompt_tokens(5, language=name, context=hotwords)

    assert ours(language, hotwords, audio=[tokenizer.AUDIO_TOKEN_ID] * 5) == asked

"""The ids around the audio, and the header in front of the text."""

from __future__ import annotations

import pytest

from wlk_qwen3_simul.languages import LANGUAGES, code_of
from wlk_qwen3_simul.text.header import MOST_TOKENS, Header, read_header
from wlk_qwen3_simul.text.prompt import PromptBuilder


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


def test_the_ids_are_those_of_transformers_template(checkpoint, vocabulary):
    """Prompt, header and places of the audio as its processor lays them out."""
    prompt = PromptBuilder.of(vocabulary)
    text = spelt(vocabulary, [*prompt.before, *prompt.after, *prompt.header("en")])
    whole = vocabulary.tokenizer.encode(text, add_special_tokens=False).ids

    assert whole == [*prompt.before, *prompt.after, *prompt.header("en")]

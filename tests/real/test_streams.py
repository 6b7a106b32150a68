"""Streams of published weights, compared with the words that were spoken."""

from __future__ import annotations

import json

import pytest

from wlk_conformance.compare import word_errors
from wlk_live import transcribe

from .conftest import MODELS, RECORDINGS, loaded, streamed, words_in

# Without MLX, which takes eight seconds of processor time per second of audio without a GPU.
TINY = [
    pytest.param(name, id=name, marks=pytest.mark.xdist_group(name))
    for name in ("faster-whisper", "whisper-alignatt", "whisper-agreement")
]
# Limits of word errors in 32 words (fast: 20) of all recordings; about twice what was measured.
CONDITIONS = {"noise": 8, "music": 6, "telephone": 6, "far": 12, "fast": 8}


@pytest.mark.parametrize("column", TINY)
def test_a_recording_of_a_minute_comes_back(column):
    """Of the 119 words at most ten are lost, added or replaced, and none is a piece of a word."""
    path = RECORDINGS / "clean/two_cities.wav"
    spoken, written = words_in(path), words_in(streamed(column, path).text)
    tokens = json.loads((MODELS / "tiny.en/tokenizer.json").read_text("utf-8"))["model"]["vocab"]
    # Common English words are single tokens, whose leading space is written as this letter.
    english = {token[1:].casefold() for token in tokens if token.startswith("Ġ")} | {*spoken}

    assert word_errors(spoken, written) <= 10, " ".join(written)
    assert set(written) - english == set()


@pytest.mark.parametrize("column", TINY)
def test_the_chunk_size_changes_no_word(column):
    """Chunks of 0.2 s and of 1 s give the same tokens, with the words that were spoken."""
    path = RECORDINGS / "clean/beckett.wav"
    short, long = (streamed(column, path, chunk_seconds=seconds) for seconds in (0.2, 1.0))

    assert short.tokens == long.tokens
    assert word_errors(words_in(path), words_in(long.text)) <= 2, long.text


@pytest.mark.parametrize("policy", ["agreement", "alignatt"])
def test_the_engines_agree(policy):
    """CTranslate2, torch and MLX return the same words for the same weights and policy."""
    engines = ["faster-whisper"] if policy == "agreement" else []
    engines += [f"whisper-{policy}", f"mlx-{policy}"]
    path = RECORDINGS / "clean/slt_1.wav"
    if not path.exists():
        pytest.skip("needs flite")
    texts = {" ".join(words_in(streamed(engine, path).text)) for engine in engines}

    assert len(texts) == 1, texts


@pytest.mark.parametrize("condition", CONDITIONS)
def test_poor_recordings_lose_few_words(condition):
    """In noise, over music, by telephone, from afar and fast, most words are recognised."""
    paths = [
        path
        for path in sorted(RECORDINGS.glob(f"conditions/{condition}-*.wav"))
        if path.stem.rpartition("-")[2] in ("beckett", "slt", "rms")
    ]
    if not paths:
        pytest.skip("needs flite")
    texts = [streamed("faster-whisper", path).text for path in paths]
    errors = sum(
        word_errors(words_in(path), words_in(text)) for path, text in zip(paths, texts, strict=True)
    )

    assert errors <= CONDITIONS[condition], texts


@pytest.mark.parametrize("name", ["silence", "noise", "music", "breathing"])
def test_audio_without_speech_does_not_pass_the_voice_activity_gate(name):
    """Nothing is committed for 20 s without speech, whatever the model would recognise there."""
    recording = RECORDINGS / f"wordless/{name}.wav"

    assert transcribe(loaded("faster-whisper", "tiny.en"), recording).text == ""


@pytest.mark.parametrize("column", TINY)
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("silence", {"keyterms": "Godot,Krapp"}),
        ("noise", {"keyterms": "Godot,Krapp"}),
        ("music", {}),
        ("breathing", {}),
    ],
)
def test_audio_without_speech_has_no_words_without_a_gate_either(column, name, options):
    """The text that Whisper writes there is as likely for silence, keyterms included."""
    assert streamed(column, RECORDINGS / f"wordless/{name}.wav", **options).text == ""


def test_a_larger_model_makes_no_more_mistakes():
    """On a clean recording base makes at most one mistake."""
    path = RECORDINGS / "clean/beckett.wav"
    text = streamed("faster-whisper-base", path).text

    assert word_errors(words_in(path), words_in(text)) <= 1, text


def test_german_is_detected_and_translated():
    """Every token has the detected language, and the task `translate` returns English."""
    path = RECORDINGS / "languages/de.wav"
    if not path.exists():
        pytest.skip("needs espeak-ng")
    stream = streamed("faster-whisper-base", path)
    translated = streamed("faster-whisper-base", path, language="de", task="translate")
    words = set(words_in(translated.text))

    assert {token.detected_language for token in stream.tokens} == {"de"}
    assert word_errors(words_in(path), words_in(stream.text)) <= 5, stream.text
    assert {"good", "morning", "the", "and", "we"} & words, words
    assert not {"guten", "morgen", "und", "wir"} & words, words

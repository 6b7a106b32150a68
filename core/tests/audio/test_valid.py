"""Audio that is validated and copied once, at the entrance."""

from __future__ import annotations

import numpy as np
import pytest

from wlk_core.audio import convert
from wlk_core.audio.convert import ValidAudio, valid_copy
from wlk_core.errors import AudioFormatError
from wlk_core.plugins import Hypothesis, LocalAgreementRecognizer, OnlineStream
from wlk_core.session import Session, transcribe_stream


def test_a_copy_is_made_once():
    """Audio that is valid, and every part of it, passes as it is."""
    audio = np.ones(10, dtype=np.float32)
    first = valid_copy(audio)
    audio[:] = 2.0

    assert first is valid_copy(first)
    assert valid_copy(first[2:5]).base is not None
    assert [1.0, 1.0, 1.0] == list(valid_copy(first[2:5]))


@pytest.mark.parametrize(
    "change",
    [
        lambda audio: audio * np.float32(np.inf),
        lambda audio: audio.reshape(2, 5),
        lambda audio: audio.view(np.int32),
        lambda audio: np.concatenate((audio, [np.nan]), dtype=np.float32),
    ],
    ids=["computed", "two dimensions", "other samples", "joined"],
)
def test_what_is_made_of_valid_audio_is_validated_again(change):
    """Only slices of it stay valid."""
    with pytest.raises(AudioFormatError):
        valid_copy(change(valid_copy(np.ones(10, dtype=np.float32))))


def test_valid_audio_cannot_be_changed():
    """Whoever is given it, as a detector or a diarizer, reads it only."""
    with pytest.raises(ValueError, match="read-only"):
        valid_copy(np.ones(10, dtype=np.float32))[0] = 2.0


@pytest.fixture
def validated(monkeypatch):
    """Return the lengths of the arrays that are validated beside those of a converter."""
    lengths = []
    real = convert.validate_audio
    monkeypatch.setattr(convert, "validate_audio", lambda a: lengths.append(len(a)) or real(a))
    return lengths


def open_stream():
    """Return a stream of an engine that recognises nothing."""
    return OnlineStream(lambda: LocalAgreementRecognizer(lambda *_args, **_options: Hypothesis()))


def test_a_source_of_chunks_is_validated_once(validated):
    """Chunks are, and what a session and its stream are given after that is not."""
    list(transcribe_stream(open_stream(), [np.zeros(1_600, dtype=np.float32)] * 30))

    assert [1_600] * 30 == validated


def test_audio_of_a_session_is_validated_by_its_converter_alone(validated):
    """The stream behind it takes the same array."""
    session = Session(open_stream())
    session.feed(b"\0\0" * 16_000)
    session.finish()

    assert [] == validated


def test_a_stream_of_its_own_validates(validated):
    """`insert_audio_chunk` may be called by anyone."""
    open_stream().insert_audio_chunk(np.zeros(160, dtype=np.float32))

    assert [160] == validated
    assert not isinstance(np.zeros(1), ValidAudio)

from __future__ import annotations

import attrs
from hypothesis import given, strategies
import pytest

from wlk_core import standard_options
from wlk_serve.errors import RequestError
from wlk_serve.realtime.config import RealtimeConfig, ServerVad, update_config

INPUT = "session.audio.input"


@pytest.fixture
def update(card):
    """Return a function that updates a new configuration with fields of audio.input."""

    def update(**fields):
        config = RealtimeConfig(model=card.name)
        return update_config(config, {"audio": {"input": fields}}, card)

    return update


@given(
    silence=strategies.integers(0, 60_000),
    padding=strategies.integers(0, 60_000),
)
def test_the_gate_is_certain_after_the_silence_that_was_set(silence, padding):
    """hang_over + pre_roll + min_silence is silence_duration_ms, and none is negative."""
    padding = min(padding, silence)
    times = ServerVad(prefix_padding_ms=padding, silence_duration_ms=silence).gate_times()

    parts = (times.pre_roll, times.hang_over, times.min_silence)
    assert pytest.approx(silence / 1000) == sum(parts)
    assert min(parts) >= 0


def test_only_fields_that_are_present_change(card):
    """An update of the threshold keeps the other times, and null clears the detection."""
    config = RealtimeConfig(model=card.name, turn_detection=ServerVad(silence_duration_ms=900))
    threshold = {"audio": {"input": {"turn_detection": {"threshold": 0.25}}}}

    changed = update_config(config, threshold, card)
    cleared = update_config(changed, {"audio": {"input": {"turn_detection": None}}}, card)

    assert ServerVad(threshold=0.25, silence_duration_ms=900) == changed.turn_detection
    assert cleared.turn_detection is None


@pytest.mark.parametrize(
    ("fields", "ignored"),
    [
        ({"noise_reduction": {"type": "near_field"}}, "audio.input.noise_reduction"),
        ({"noise_reduction": None}, None),
        ({"transcription": {"keywords": ["wlk"]}}, "audio.input.transcription.keywords"),
        ({"transcription": {"languages": ["en", "fr"]}}, "audio.input.transcription.languages"),
        ({"transcription": {"prompt": "digits"}}, None),
        ({"turn_detection": {"type": "semantic_vad"}}, "audio.input.turn_detection.type"),
        (
            {"turn_detection": {"type": "server_vad", "idle_timeout_ms": 5}},
            "audio.input.turn_detection.idle_timeout_ms",
        ),
        (
            {"turn_detection": {"prefix_padding_ms": 900}},
            "audio.input.turn_detection.prefix_padding_ms",
        ),
        ({"colour": "red"}, "audio.input.colour"),
    ],
)
def test_what_cannot_be_honoured_is_in_the_answer(update, fields, ignored):
    """It is no error, because some clients end at any error."""
    assert [ignored] * (ignored is not None) == update(**fields).record()["wlk"]["ignored"]


def test_keywords_are_the_terms_of_a_backend_that_takes_some(card):
    """They are shown as they were set."""
    spec = attrs.evolve(card.spec, options=(*card.spec.options, standard_options.KEYTERMS))
    transcription = {"transcription": {"keywords": ["wlk", "Silero"]}}

    config = update_config(
        RealtimeConfig(model=card.name),
        {"audio": {"input": transcription}},
        attrs.evolve(card, spec=spec),
    )

    assert "wlk, Silero" == config.stream_settings().keyterms
    assert ["wlk", "Silero"] == config.record()["audio"]["input"]["transcription"]["keywords"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"format": {"type": "audio/pcm", "rate": 7_999}}, f"{INPUT}.format.rate"),
        ({"format": {"type": "audio/pcm", "rate": True}}, f"{INPUT}.format.rate"),
        ({"format": {"type": "audio/opus"}}, f"{INPUT}.format.type"),
        ({"transcription": {"model": "large"}}, f"{INPUT}.transcription.model"),
        ({"transcription": {"language": "xx"}}, f"{INPUT}.transcription.language"),
        ({"transcription": {"prompt": 5}}, f"{INPUT}.transcription.prompt"),
        ({"turn_detection": {"threshold": 1.5}}, f"{INPUT}.turn_detection.threshold"),
        (
            {"turn_detection": {"silence_duration_ms": 10**400}},
            f"{INPUT}.turn_detection.silence_duration_ms",
        ),
        ({"turn_detection": "server_vad"}, f"{INPUT}.turn_detection"),
    ],
)
def test_a_wrong_value_is_named_by_its_path(update, fields, param):
    """The path is that of OpenAI's own errors."""
    with pytest.raises(RequestError) as caught:
        update(**fields)

    assert param == caught.value.param


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"turn_detection": {"threshold": 1.5}},
            f"`{INPUT}.turn_detection.threshold`: expected `float` <= 1.0, got 1.5",
        ),
        ({"format": "pcm16"}, f"`{INPUT}.format`: expected `object`, got 'pcm16'"),
        (
            {"transcription": {"prompt": [5] * 1000}},
            f"`{INPUT}.transcription.prompt`: expected `str | null`, got [5, 5, 5, 5, 5, 5, ...]",
        ),
    ],
    ids=["range", "type", "long"],
)
def test_the_message_has_the_value_that_came(update, fields, message):
    """A long value is shortened."""
    with pytest.raises(RequestError) as caught:
        update(**fields)

    assert message == str(caught.value)

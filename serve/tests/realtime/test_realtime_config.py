from __future__ import annotations

import attrs
import pytest

from wlk_core import standard_options
from wlk_serve.errors import RequestError
from wlk_serve.realtime.config import RealtimeConfig, ServerVad, update_config


@pytest.fixture
def update(card):
    """Return a function that applies fields of audio.input to a new configuration."""

    def update(**fields):
        config = RealtimeConfig(model=card.name)
        return update_config(config, {"audio": {"input": fields}}, card)

    return update


def test_only_fields_that_are_present_change(card):
    """An update of the threshold keeps the times, and null switches the detection off."""
    config = RealtimeConfig(model=card.name, turn_detection=ServerVad(silence_duration_ms=900))
    threshold = {"audio": {"input": {"turn_detection": {"threshold": 0.25}}}}

    changed = update_config(config, threshold, card)
    cleared = update_config(changed, {"audio": {"input": {"turn_detection": None}}}, card)

    assert changed.turn_detection == ServerVad(threshold=0.25, silence_duration_ms=900)
    assert cleared.turn_detection is None


def test_semantic_vad_is_the_turn_detector_of_the_server(card):
    """It uses the silence it was measured with; `server_vad` returns to silence alone."""
    card = attrs.evolve(card, detects_turns=True)
    config, found = RealtimeConfig(model=card.name), []
    for kind in ("semantic_vad", "server_vad"):
        detection = {"type": kind, "eagerness": "auto"}
        config = update_config(config, {"audio": {"input": {"turn_detection": detection}}}, card)
        shown = config.record()["audio"]["input"]["turn_detection"]
        assert (shown["type"], config.ignored) == (kind, ("audio.input.turn_detection.eagerness",))
        settings = config.stream_options()
        found.append((settings.detects_turns, settings.gate.silence_seconds))

    assert found == [(True, 1.2), (False, 0.5)]


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
    """`wlk.ignored` names the field; an error would make some clients stop."""
    assert update(**fields).record()["wlk"]["ignored"] == [ignored] * (ignored is not None)


def test_keywords_are_the_terms_of_a_backend_that_takes_some(card):
    """Keywords become `keyterms`, and session.updated repeats the list as it was set."""
    spec = attrs.evolve(card.spec, options=(*card.spec.options, standard_options.KEYTERMS))
    transcription = {"transcription": {"keywords": ["wlk", "Silero"]}}

    config = update_config(
        RealtimeConfig(model=card.name),
        {"audio": {"input": transcription}},
        attrs.evolve(card, spec=spec),
    )

    assert config.stream_options().keyterms == "wlk, Silero"
    assert config.record()["audio"]["input"]["transcription"]["keywords"] == ["wlk", "Silero"]


@pytest.mark.parametrize(
    ("fields", "path", "problem"),
    [
        ({"format": {"rate": 7_999}}, "format.rate", ": expected `int` >= 8000, got 7999"),
        ({"format": {"rate": True}}, "format.rate", ": expected `int`, got True"),
        ({"format": {"type": "audio/opus"}}, "format.type", " as audio/pcm or audio/pcmu or "),
        ({"format": 7}, "format", ": expected `object`, got 7"),
        ({"format": {"type": "audio/pcmu", "rate": 16_000}}, "format.rate", " as 8000 for audio/"),
        ({"format": {"channels": 2}}, "format.channels", ": invalid enum value 2"),
        ({"format": {"sample_rate": 8000}}, "format", "unknown field `sample_rate`"),
        ({"transcription": {"model": "large"}}, "transcription.model", "use 'small'"),
        ({"transcription": {"language": "xx"}}, "transcription.language", "'xx'"),
        (
            {"transcription": {"prompt": [5] * 1000}},
            "transcription.prompt",
            ": expected `str | null`, got [5, 5, 5, 5, 5, 5, ...]",
        ),
        (
            {"turn_detection": {"threshold": 1.5}},
            "turn_detection.threshold",
            ": expected `float` <= 1.0, got 1.5",
        ),
        (
            {"turn_detection": {"silence_duration_ms": 10**400}},
            "turn_detection.silence_duration_ms",
            ": expected `int` <= 60000, got 1000",
        ),
        ({"turn_detection": "server_vad"}, "turn_detection", ": expected `object`"),
    ],
)
def test_a_wrong_value_is_named_by_its_path(update, fields, path, problem):
    """The path is as in OpenAI's own errors; the message quotes the value, shortened."""
    with pytest.raises(RequestError) as caught:
        update(**fields)

    assert caught.value.param == f"session.audio.input.{path}"
    assert problem in str(caught.value)


def test_a_language_that_the_model_takes_from_the_audio_is_named_as_ignored(card):
    """Clients that always send one get their words."""
    card = attrs.evolve(card, spec=attrs.evolve(card.spec, languages=(), capabilities=()))
    session = {"audio": {"input": {"transcription": {"language": "en"}}}}
    config = update_config(RealtimeConfig(model=card.name), session, card)

    assert (config.language, config.ignored) == (None, ("audio.input.transcription.language",))


@pytest.mark.parametrize(
    ("name", "kind"),
    [("pcm16", "audio/pcm"), ("g711_ulaw", "audio/pcmu"), ("g711_alaw", "audio/pcma")],
)
def test_fields_of_the_beta_are_translated(card, name, kind):
    """Its clients send them in the session itself; ignored, mu-law would be read as PCM."""
    session = {
        "input_audio_format": name,
        "input_audio_transcription": {"model": "small", "language": "fr"},
        "turn_detection": None,
    }

    config = update_config(RealtimeConfig(model=card.name), session, card)

    assert (config.format.type, config.language, config.turn_detection) == (kind, "fr", None)
    assert config.ignored == ()


def test_an_unknown_format_of_the_beta_is_refused(card):
    """Its audio would be read wrongly."""
    with pytest.raises(RequestError, match=r"audio/pcm .*'opus'"):
        update_config(RealtimeConfig(model=card.name), {"input_audio_format": "opus"}, card)


def test_an_element_of_a_list_is_named(card):
    """The path has its number."""
    with pytest.raises(RequestError, match=r"session\.include\[0\]`: expected `str`, got 1"):
        update_config(RealtimeConfig(model=card.name), {"include": [1]}, card)

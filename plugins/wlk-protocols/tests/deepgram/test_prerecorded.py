"""The protocol parses requests to transcribe recordings, and formats the answers."""

from __future__ import annotations

import attrs
import pytest
from starlette.datastructures import Headers, QueryParams

from wlk_conformance.protocols import CARD
from wlk_core.options import Option
from wlk_core.tokens import ASRToken
from wlk_live.audio import wave_header
from wlk_protocols.deepgram.query import FluxQuery
from wlk_serve.protocols import Handshake, RequestError

from .client import RECORDINGS


def asked(query="", card=CARD, **headers):
    """Return the parsed request of a client, and the function that formats the answer."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return RECORDINGS.open(
        Handshake(
            headers=Headers(named),
            query=QueryParams(query),
            subprotocols=(),
            secret=None,
            card=lambda _name: card,
        )
    )


WORDS = (
    ASRToken(0.0, 0.5, " Zero,", 0.5, speaker="a"),
    ASRToken(0.5, 1.0, " one.", 1.0, speaker="b"),
)


def test_the_answer_has_a_channel_with_one_alternative():
    """Words come without and with punctuation."""
    _, answered = asked("model=nova-3&smart_format=true")
    answer = answered("req_1", WORDS, 2.0)

    (channel,) = answer["results"]["channels"]
    (alternative,) = channel["alternatives"]
    assert (alternative["transcript"], alternative["confidence"]) == ("Zero, one.", 0.75)
    assert [(word["word"], word["punctuated_word"]) for word in alternative["words"]] == [
        ("zero", "Zero,"),
        ("one", "one."),
    ]
    assert tuple(answer["metadata"][name] for name in ("request_id", "duration", "channels")) == (
        "req_1",
        2.0,
        1,
    )
    assert "utterances" not in answer["results"]


def test_utterances_and_speakers_come_where_they_are_asked_for():
    """Speakers are numbered in order of appearance; a blank utterance is left out."""
    card, blank = attrs.evolve(CARD, speaker_delay=1.0), ASRToken(1.0, 1.0, " ", speaker="c")
    request, answer = asked("utterances=true&diarize=true", card)
    utterances = answer("req_1", (*WORDS, blank), 2.0)["results"]["utterances"]

    assert request.has_speakers
    assert [(utterance["transcript"], utterance["speaker"]) for utterance in utterances] == [
        ("Zero,", 0),
        ("one.", 1),
    ]
    assert not asked("diarize=true")[0].has_speakers


def test_the_language_is_that_of_the_query_or_detected():
    """`detect_language` decides."""
    words = [attrs.evolve(word, detected_language="en") for word in WORDS]
    request, answer = asked("detect_language=true&language=en")

    assert asked("language=en")[0].language == "en"
    assert request.language is None
    (channel,) = answer("req_1", words, 2.0)["results"]["channels"]
    assert channel["detected_language"] == "en"


def test_fields_that_are_ignored_are_named_in_the_metadata():
    """Each has a warning, as Deepgram warns of parameters."""
    _, answer = asked("summarize=v2&topics=false&smart_format=true")

    (warning,) = answer("req_1", WORDS, 2.0)["metadata"]["warnings"]
    assert warning["parameter"] == "summarize"


@pytest.mark.parametrize(
    ("query", "headers", "reason"),
    [
        ("", {"content_type": "application/json"}, "does not fetch URLs"),
        ("", {"content_type": "multipart/form-data; boundary=x"}, "got a form.* --data-binary"),
        ("callback=https://example.org", {}, "callback"),
        ("multichannel=perhaps", {}, "multichannel as true or false"),
        ("utterances=perhaps", {}, "utterances"),
        ("encoding=mulaw&sample_rate=1", {}, "sample_rate"),
        ("language=xx", {}, "xx"),
    ],
)
def test_what_is_not_done_is_refused(query, headers, reason):
    """The error is one line, before the recording is read."""
    with pytest.raises(RequestError, match=reason):
        asked(query, **headers)


def test_a_refusal_has_deepgrams_fields():
    """Its SDK raises an error with them."""
    response = RECORDINGS.refuse(RequestError("no", status=401, code="invalid_api_key"))

    assert (401, b"INVALID_AUTH" in response.body) == (response.status_code, True)


def test_each_channel_is_a_result_and_utterances_are_in_the_order_of_time():
    """An utterance names its channel."""
    request, answered = asked("multichannel=true&utterances=true")
    second = [ASRToken(0.25, 0.75, " Two.", 0.5), ASRToken(5.0, 5.5, " Three.", 0.5)]
    answer = answered("req_1", [list(WORDS), second], 6.0)

    assert request.is_multichannel
    channels = [each["alternatives"][0] for each in answer["results"]["channels"]]
    assert [each["transcript"] for each in channels] == ["Zero, one.", "Two. Three."]
    found = [(each["channel"], each["transcript"]) for each in answer["results"]["utterances"]]
    assert found == [(0, "Zero,"), (1, "Two."), (0, "one."), (1, "Three.")]
    assert answer["metadata"]["channels"] == 2


def test_detection_can_be_limited_to_some_languages():
    """Deepgram's field is then repeated."""
    options = (Option(name="languages", scope="stream"),)
    card = attrs.evolve(CARD, spec=attrs.evolve(CARD.spec, options=options))

    assert asked("detect_language=en&detect_language=de", card)[0].language == "en,de"
    assert asked("detect_language=true", card)[0].language is None
    assert (
        FluxQuery.parse(
            QueryParams("encoding=linear16&sample_rate=8000&language_hint=en&language_hint=de"),
            card,
        ).options.language
        == "en,de"
    )


@pytest.mark.parametrize(
    ("query", "header"),
    [
        ("encoding=mulaw&sample_rate=8000", wave_header("mulaw", rate=8000, channels=1)),
        (
            "encoding=linear16&sample_rate=48000&channels=2&multichannel=true",
            wave_header("s16le", rate=48_000, channels=2),
        ),
        ("encoding=linear16", b""),  # a recording states its own rate
        ("encoding=flac&sample_rate=96000&channels=32", b""),
        ("encoding=flac&sample_rate=8000", b""),
        ("sample_rate=8000", b""),
    ],
)
def test_samples_are_declared_by_encoding_and_sample_rate(query, header):
    """Deepgram takes raw samples with both fields; other encodings have headers of their own."""
    request, _ = asked(query)

    assert request.header == header


def test_the_media_type_tells_mp3_from_samples():
    """An MP3 can begin without a header, and clients send `encoding` with one too."""
    query = "encoding=linear16&sample_rate=8000"

    assert asked(query, content_type="audio/mp3")[0].header == b""
    assert asked(query, content_type="audio/wav")[0].header

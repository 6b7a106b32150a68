"""Speakers of recordings: OpenAI's diarized_json, and refusals."""

from __future__ import annotations

import json

import attrs
import pytest

from wlk_core.processor import StreamStats
from wlk_core.tokens import SpeakerSpan
from wlk_live.session import Commit, End, Endpoint, SpeakerTurn
from wlk_serve.errors import RequestError
from wlk_serve.transcriptions.protocol import Transcript, parse_form

DIARIZED = ("response_format", "diarized_json")


@pytest.fixture
def card(card):
    """Return the card of a server with a diarizer."""
    return attrs.evolve(card, speaker_delay=1.0)


@pytest.fixture
def events(token):
    """Return events with the words of two speakers, and of an unknown one."""
    words = tuple(
        token(f" {text}", start, start + 0.5)
        for text, start in [("zero", 0.25), ("one", 1.0), ("two", 3.5)]
    )
    spans = [SpeakerSpan(0, 0.0, 1.0), SpeakerSpan("bert", 1.0, 1.5)]
    return [
        Commit(words, 4.0),
        *(SpeakerTurn(span, 4.0) for span in spans),
        Endpoint(4.0, "end", 4.0),
        End(audio_time=4.0, stats=StreamStats(), latency=None),
    ]


def request(card, *fields, task="transcribe"):
    """Return the request in a form."""
    return parse_form([("model", "small"), DIARIZED, *fields], card, task)


def test_diarized_json_has_the_fields_of_openai_and_no_other(card, events):
    """Numbered speakers and unknown ones have names, too, and streams send segments."""
    transcript = Transcript(request(card), speaker_delay=1.0)
    sent = [record for event in events for record in transcript.add(event)]
    media_type, body = transcript.render()

    texts = [("seg_0", 0.25, 0.75, "zero", "Speaker 1"), ("seg_1", 1.0, 1.5, "one", "bert")]
    texts.append(("seg_2", 3.5, 4.0, "two", "unknown"))
    names = ("id", "start", "end", "text", "speaker")
    segments = [
        {"type": "transcript.text.segment", **dict(zip(names, values, strict=True))}
        for values in texts
    ]
    assert media_type == "application/json"
    assert json.loads(body) == {
        "task": "transcribe",
        "duration": 4.0,
        "text": "zero one two",
        "segments": segments,
        "usage": {"type": "duration", "seconds": 4.0},
    }
    assert [record for record in sent if "segment" in record["type"]] == segments


def test_a_server_without_a_diarizer_names_the_remedy(card):
    """The error names the field that cannot be honoured, and the command to start."""
    with pytest.raises(RequestError, match="start it with: wlk-core serve --diarizer NAME") as no:
        request(attrs.evolve(card, speaker_delay=None))

    assert (
        no.value.status, no.value.code, no.value.param,
    ) == (400, "invalid_value", "response_format")  # fmt: skip


def test_a_translation_has_no_speakers(card):
    """OpenAI's translations do not support diarized_json either."""
    spec = attrs.evolve(card.spec, capabilities={*card.spec.capabilities, "translation"})

    with pytest.raises(RequestError, match="use /v1/audio/transcriptions"):
        request(attrs.evolve(card, spec=spec), task="translate")


def test_known_speakers_are_named_as_ignored(card):
    """Names and recordings of known speakers have no effect on the diarizer."""
    fields = [("known_speaker_names[]", "anna"), ("known_speaker_references[]", "data:...")]
    fields += [("include[]", "logprobs"), ("timestamp_granularities[]", "word")]

    assert request(card, *fields).ignored == (
        "include", "known_speaker_names", "known_speaker_references", "timestamp_granularities",
    )  # fmt: skip

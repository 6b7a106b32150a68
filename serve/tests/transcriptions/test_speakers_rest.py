"""Speakers of recordings: OpenAI's diarized_json, and what is refused."""

from __future__ import annotations

import json

import attrs
import pytest

from wlk_core.session.timeline import TextLine
from wlk_serve.errors import RequestError
from wlk_serve.transcriptions.protocol import (
    Recognized,
    SpeakerLines,
    TranscriptionStream,
    parse_form,
    render,
)
from wlk_serve.words import speaker_name

DIARIZED = ("response_format", "diarized_json")


@pytest.fixture
def card(card):
    """Return the card of a server with a diarizer."""
    return attrs.evolve(card, speaker_delay=1.0)


@pytest.fixture
def lines(token):
    """Return the words of two speakers, and of an unknown one."""
    return tuple(
        TextLine(tokens=(token(f" {text}", start, start + 0.5, speaker=speaker),))
        for text, start, speaker in [("zero", 0.25, 0), ("one", 1.0, "bert"), ("two", 1.5, None)]
    )


def request(card, *fields, task="transcribe"):
    """Return the request of a form."""
    return parse_form([("model", "small"), DIARIZED, *fields], card, task)


def test_diarized_json_has_the_fields_of_openai_and_no_other(card, lines):
    """Numbers become letters; `speaker` is a text where the speaker is unknown too."""
    tokens = tuple(token for line in lines for token in line.tokens)
    recognized = Recognized(tokens=tokens, duration=2.0, speaker_lines=lines)
    media_type, body = render(request(card), recognized)

    texts = [("seg_0", 0.25, 0.75, "zero", "A"), ("seg_1", 1.0, 1.5, "one", "bert")]
    texts.append(("seg_2", 1.5, 2.0, "two", "unknown"))
    names = ("id", "start", "end", "text", "speaker")
    segments = [dict(zip(names, values, strict=True)) for values in texts]
    assert "application/json" == media_type
    assert {
        "task": "transcribe",
        "duration": 2.0,
        "text": "zero one two",
        "segments": [{"type": "transcript.text.segment", **segment} for segment in segments],
        "usage": {"type": "duration", "seconds": 2.0},
    } == json.loads(body)


def test_a_stream_sends_the_same_segments_as_they_become_certain(card, lines):
    """Their numbers go on from event to event."""
    stream = TranscriptionStream(request(card, ("stream", "true")))
    text = stream.segments(SpeakerLines(lines[:1])) + stream.segments(SpeakerLines(lines[1:]))
    events = [json.loads(line.removeprefix("data: ")) for line in text.split("\n\n") if line]
    whole = Recognized(tokens=(), duration=2.0, speaker_lines=lines)

    assert json.loads(render(request(card), whole)[1])["segments"] == events


def test_a_server_without_a_diarizer_names_the_remedy(card):
    """The client reads which field cannot be honoured, and its user what to start."""
    with pytest.raises(RequestError, match="start it with: wlk-core serve --diarizer NAME") as no:
        request(attrs.evolve(card, speaker_delay=None))

    assert (400, "invalid_value", "response_format") == (
        no.value.status, no.value.code, no.value.param,
    )  # fmt: skip


def test_a_translation_has_no_speakers(card):
    """OpenAI's translations take no diarized_json either."""
    spec = attrs.evolve(card.spec, capabilities={*card.spec.capabilities, "translation"})

    with pytest.raises(RequestError, match="use /v1/audio/transcriptions"):
        request(attrs.evolve(card, spec=spec), task="translate")


def test_known_speakers_are_named_as_ignored(card):
    """Neither names nor recordings of speakers change a diarizer."""
    fields = [("known_speaker_names[]", "anna"), ("known_speaker_references[]", "data:...")]
    fields += [("include[]", "logprobs"), ("timestamp_granularities[]", "word")]

    assert (
        "include", "known_speaker_names", "known_speaker_references", "timestamp_granularities",
    ) == request(card, *fields).ignored  # fmt: skip


@pytest.mark.parametrize(
    ("speaker", "name"),
    [(0, "A"), (25, "Z"), (26, "AA"), (27, "AB"), (701, "ZZ"), (702, "AAA"), (-1, "-1"),
     ("anna", "anna"), ("0", "0"), (None, "unknown")],
)  # fmt: skip
def test_a_number_becomes_a_letter(speaker, name):
    """As OpenAI names speakers that it does not know."""
    assert name == speaker_name(speaker)

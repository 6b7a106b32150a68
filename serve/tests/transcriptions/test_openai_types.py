"""What requests are answered, against the published types of OpenAI's API."""

from __future__ import annotations

import json

import attrs
import pytest

pytest.importorskip("openai")

from openai.types import Model
from openai.types.audio import (
    Transcription,
    TranscriptionDiarized,
    TranscriptionTextDeltaEvent,
    TranscriptionTextDoneEvent,
    TranscriptionTextSegmentEvent,
    TranscriptionVerbose,
    TranslationVerbose,
)

from wlk_core.processor import StreamStats
from wlk_core.tokens import SpeakerSpan
from wlk_live.session import Commit, End, SpeakerTurn
from wlk_serve.transcriptions.protocol import Transcript, parse_form

END = End(audio_time=2.0, stats=StreamStats(), latency=None)
EVENTS = {
    "transcript.text.delta": TranscriptionTextDeltaEvent,
    "transcript.text.segment": TranscriptionTextSegmentEvent,
    "transcript.text.done": TranscriptionTextDoneEvent,
}
LOGPROBS = ("include[]", "logprobs")
WORDS = [("timestamp_granularities[]", name) for name in ("word", "segment")]


@pytest.fixture
def card(card):
    """Return the card of a model that translates, on a server with a diarizer."""
    capabilities = {*card.spec.capabilities, "translation"}
    return attrs.evolve(
        card, spec=attrs.evolve(card.spec, capabilities=capabilities), speaker_delay=0.5
    )


@pytest.fixture(params=["probabilities", "no probabilities", "silence"])
def recognized(token, request):
    """Return the events of a recording."""
    if request.param == "silence":
        return [END]
    probability = 0.5 if request.param == "probabilities" else None
    tokens = (
        token(" zero", 0.25, 0.5, probability=probability),
        token(" one", 1.0, 1.5, probability=probability),
    )
    return [Commit(tokens, 2.0), SpeakerTurn(SpeakerSpan("a", 0.0, 1.0), 2.0), END]


def played(card, events, *fields, task="transcribe"):
    """Return the transcript and the server-sent events of a request."""
    request = parse_form([("model", "small"), *fields], card, task)
    transcript = Transcript(request, card.speaker_delay)
    return transcript, [record for event in events for record in transcript.add(event)]


@pytest.mark.parametrize(
    ("fields", "kind", "task"),
    [
        ([LOGPROBS], Transcription, "transcribe"),
        ([("response_format", "verbose_json"), *WORDS], TranscriptionVerbose, "transcribe"),
        ([("response_format", "verbose_json"), *WORDS], TranslationVerbose, "translate"),
        ([("response_format", "diarized_json")], TranscriptionDiarized, "transcribe"),
    ],
    ids=["json", "verbose_json", "translation", "diarized_json"],
)
def test_every_answer_has_the_required_fields(card, recognized, fields, kind, task):
    """Clients with typed models refuse an answer without one of them, or with null in it."""
    transcript, _ = played(card, recognized, *fields, task=task)

    record = json.loads(transcript.render()[1])

    assert kind.model_validate(record, strict=True).text == record["text"]


@pytest.mark.parametrize("response_format", ["json", "diarized_json"])
def test_every_event_of_a_stream_has_the_required_fields(card, recognized, response_format):
    """The same holds for server-sent events."""
    fields = [("stream", "true"), ("response_format", response_format), LOGPROBS]
    transcript, records = played(card, recognized, *fields)

    records.append(transcript.done())
    events = [EVENTS[each["type"]].model_validate(each, strict=True) for each in records]

    assert events[-1].type == "transcript.text.done"


def test_a_language_has_its_english_name(card, recognized):
    """OpenAI's API sends names, which the AI SDK and others translate to codes."""
    verbose = ("response_format", "verbose_json")
    languages = [
        json.loads(played(card, recognized, verbose, *fields, task=task)[0].render()[1])["language"]
        for fields, task in (([("language", "fr")], "transcribe"), ([], "translate"))
    ]

    assert languages == ["french", "english"]


def test_a_model_has_the_required_fields(card):
    """The list of models is that of the API."""
    assert Model.model_validate(card.record(), strict=True).object == "model"

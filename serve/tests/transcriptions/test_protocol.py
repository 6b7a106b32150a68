from __future__ import annotations

import json
import math

from hypothesis import given, strategies
import pytest

from wlk_core.backend import BackendSpec
from wlk_serve.errors import RequestError
from wlk_serve.models.card import ModelCard
from wlk_serve.transcriptions.protocol import (
    Recognized,
    TranscriptionStream,
    parse_form,
    render,
)

TOY = BackendSpec(name="toy", api=1, summary="a toy", load="toy:load", languages=("en",))
NAMES = ("model", "language", "response_format", "stream", "temperature", "include[]", "prompt")


@pytest.fixture
def recognized(token):
    """Return two words of a recording of two seconds."""
    tokens = (token(" zero", 0.25, 0.5), token(" one", 1.0, 1.5, probability=0.25))
    return Recognized(tokens=tokens, duration=2.0, language="en")


def request(card, *fields, task="transcribe"):
    """Return the request of a form for the served model."""
    return parse_form([("model", "small"), *fields], card, task)


def body(card, recognized, *fields):
    """Return the decoded JSON body of the response."""
    return json.loads(render(request(card, *fields), recognized)[1])


def events(text):
    """Return the JSON of server-sent events."""
    return [json.loads(line.removeprefix("data: ")) for line in text.split("\n\n") if line]


def test_a_plain_answer_has_the_text_and_the_seconds(card, recognized):
    """The default format is json."""
    expected = {"text": "zero one", "usage": {"type": "duration", "seconds": 2.0}}

    assert expected == body(card, recognized)


@pytest.mark.parametrize(
    ("response_format", "expected"),
    [
        ("text", "zero one\n"),
        ("srt", "1\n00:00:00,250 --> 00:00:01,500\nzero one\n\n"),
        ("vtt", "WEBVTT\n\n00:00:00.250 --> 00:00:01.500\nzero one\n\n"),
    ],
)
def test_a_format_of_text_is_the_body_itself(card, recognized, response_format, expected):
    """Captions are those of the core, with their times."""
    media_type, text = render(request(card, ("response_format", response_format)), recognized)

    assert expected == text
    assert media_type.startswith("text/")


def test_verbose_json_has_segments_and_on_request_words(card, recognized):
    """Words have the confidence that OpenAI's do not have."""
    verbose = ("response_format", "verbose_json")
    words = ("timestamp_granularities[]", "word")

    with_segments = body(card, recognized, verbose)
    with_words = body(card, recognized, verbose, words)

    assert "words" not in with_segments
    assert ["zero one"] == [segment["text"] for segment in with_segments["segments"]]
    assert (2.0, "en", "transcribe") == tuple(
        with_segments[name] for name in ("duration", "language", "task")
    )
    assert "segments" not in with_words
    expected = {"word": "one", "start": 1.0, "end": 1.5, "confidence": 0.25}
    assert expected == with_words["words"][1]


class CountedTokens(tuple):
    """Tokens that count how many of them were read."""

    __slots__ = ()
    reads = 0

    def __iter__(self):
        """Count each token that is read."""
        for token in super().__iter__():
            type(self).reads += 1
            yield token


@pytest.mark.parametrize("sentences", [1, 100])
def test_verbose_json_reads_each_word_as_often_in_a_long_recording(card, token, sentences):
    """The work for a segment is that for its own words."""
    words = CountedTokens(token(f" w{i}.", i, i + 0.5, probability=0.25) for i in range(sentences))
    CountedTokens.reads = 0
    verbose = ("response_format", "verbose_json")

    segments = body(card, Recognized(tokens=words, duration=900.0), verbose)["segments"]

    assert sentences == len(segments)
    assert CountedTokens.reads <= 3 * sentences
    assert {round(math.log(0.25), 6)} == {segment["avg_logprob"] for segment in segments}


def test_log_probabilities_come_when_they_are_included(card, recognized):
    """A logprob is the logarithm of the probability, and bytes are UTF-8."""
    logprobs = body(card, recognized, ("include[]", "logprobs"))["logprobs"]

    assert pytest.approx(math.log(0.25), abs=1e-5) == logprobs[1]["logprob"]
    assert list(b" one") == logprobs[1]["bytes"]


def test_joined_deltas_are_the_text_of_the_last_event(card, recognized, token):
    """White space before the first and after the last word is in no delta."""
    tokens = (*recognized.tokens, token(" two ", 1.6, 1.9))
    whole = Recognized(tokens=tokens, duration=2.0)
    stream = TranscriptionStream(request(card, ("stream", "true")))

    deltas = events("".join(stream.delta([part]) for part in tokens))
    (last,) = events(stream.done(whole))

    assert ["zero", " one", " two"] == [event["delta"] for event in deltas]
    assert "zero one two" == last["text"]
    assert "transcript.text.done" == last["type"]


def test_a_failure_in_a_stream_is_an_event_with_an_error(card):
    """OpenAI's SDK raises it as an APIError."""
    stream = TranscriptionStream(request(card, ("stream", "true")))

    (event,) = events(stream.failed(RequestError("the engine failed", status=500)))

    assert ("the engine failed", "server_error") == (
        event["error"]["message"],
        event["error"]["type"],
    )


def test_lists_are_taken_with_and_without_brackets(card):
    """OpenAI's SDK sends brackets, curl users often do not."""
    forms = [request(card, (f"include{end}", "logprobs")) for end in ("", "[]")]

    assert all(form.has_logprobs for form in forms)


def test_a_region_of_a_language_is_accepted(card):
    """A tag such as en-US is the code en of the backend."""
    assert "en" == request(card, ("language", "en-US")).language


def test_what_cannot_be_honoured_is_named(card):
    """No field is dropped in silence."""
    fields = [("temperature", "0.5"), ("keywords[]", "wlk"), ("chunking_strategy", "auto")]

    ignored = request(card, *fields).ignored

    assert ("chunking_strategy", "keywords", "temperature") == ignored


def test_a_name_that_no_header_can_carry_is_left_out(card):
    """The names of fields are written into a header of the response."""
    names = ["a\r\nset-cookie: x", "\u0442", "x" * 65, "good[0]"]

    assert ("good[0]",) == request(card, *((name, "1") for name in names)).ignored


@pytest.mark.parametrize(
    ("fields", "status", "code", "param"),
    [
        ([("model", "large")], 404, "model_not_found", "model"),
        ([("model", "")], 400, "invalid_type", "model"),
        ([("language", "xx")], 400, "invalid_value", "language"),
        ([("response_format", "diarized_json")], 400, "invalid_value", "response_format"),
        ([("temperature", "hot")], 400, "invalid_value", "temperature"),
        ([("temperature", "nan")], 400, "invalid_value", "temperature"),
        ([("stream", "maybe")], 400, "invalid_value", "stream"),
        ([("stream", "true"), ("response_format", "srt")], 400, "invalid_value", "response_format"),
        (
            [("timestamp_granularities[]", "letter")],
            400,
            "invalid_value",
            "timestamp_granularities",
        ),
    ],
)
def test_a_wrong_field_is_named(card, fields, status, code, param):
    """The error has the status, the code and the field."""
    with pytest.raises(RequestError) as caught:
        request(card, *fields)

    assert (status, code, param) == (caught.value.status, caught.value.code, caught.value.param)


def test_a_model_that_does_not_translate_refuses_translations(card):
    """The message names the address that works."""
    with pytest.raises(RequestError, match="/v1/audio/transcriptions"):
        request(card, task="translate")


@given(
    fields=strategies.lists(strategies.tuples(strategies.sampled_from(NAMES), strategies.text()))
)
def test_no_form_raises_anything_but_a_request_error(fields):
    """Any text in any field is a request or a refusal."""
    try:
        parse_form(fields, ModelCard(name="small", spec=TOY), "transcribe")
    except RequestError as error:
        assert error.record()["message"]

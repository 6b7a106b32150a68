from __future__ import annotations

import json
import math

import attrs
from hypothesis import given, strategies
import pytest

from wlk_core import standard_options
from wlk_core.backend import BackendSpec
from wlk_core.errors import BackendError, WLKError
from wlk_core.processor import StreamStats
from wlk_live.session import Commit, End, Failure
from wlk_serve.errors import RequestError
from wlk_serve.protocols import ModelCard
from wlk_serve.transcriptions.channels import render_channels
from wlk_serve.transcriptions.protocol import Transcript, parse_form

TOY = BackendSpec(name="toy", api=1, summary="a toy", load="toy:load", languages=("en",))
NAMES = ("model", "language", "response_format", "stream", "temperature", "include[]", "prompt")


@pytest.fixture
def recognized(token):
    """Return the events of a recording of two seconds with two words."""
    tokens = (token(" zero", 0.25, 0.5), token(" one", 1.0, 1.5, probability=0.25))
    return [Commit(tokens, 2.0), End(audio_time=2.0, stats=StreamStats(), latency=None)]


def request(card, *fields, task="transcribe"):
    """Return the request in a form for the served model."""
    return parse_form([("model", "small"), *fields], card, task)


def rendered(card, events, *fields):
    """Return the media type and the body of the response."""
    transcript = Transcript(request(card, ("language", "en"), *fields))
    for event in events:
        transcript.add(event)
    return transcript.render()


def body(card, events, *fields):
    """Return the decoded JSON body of the response."""
    return json.loads(rendered(card, events, *fields)[1])


def test_verbose_json_has_segments_and_on_request_words(card, recognized):
    """Words have a confidence, unlike OpenAI's."""
    verbose = ("response_format", "verbose_json")
    words = ("timestamp_granularities[]", "word")

    with_segments = body(card, recognized, verbose)
    with_words = body(card, recognized, verbose, words)

    assert "words" not in with_segments
    (segment,) = with_segments["segments"]
    assert (
        segment["text"],
        segment["avg_logprob"],
    ) == ("zero one", pytest.approx((math.log(0.5) + math.log(0.25)) / 2, abs=1e-5))
    assert tuple(with_segments[name] for name in ("duration", "language", "task")) == (
        2.0,
        "english",
        "transcribe",
    )
    assert "segments" not in with_words
    expected = {"word": "one", "start": 1.0, "end": 1.5, "confidence": 0.25}
    assert with_words["words"][1] == expected


def test_log_probabilities_come_when_they_are_included(card, recognized):
    """A logprob is the logarithm of the probability, and bytes are UTF-8."""
    logprobs = body(card, recognized, ("include[]", "logprobs"))["logprobs"]

    assert logprobs[1]["logprob"] == pytest.approx(math.log(0.25), abs=1e-5)
    assert logprobs[1]["bytes"] == list(b" one")


def test_joined_deltas_are_the_text_of_the_last_event(card, recognized, token):
    """No delta has white space before the first or after the last word."""
    transcript = Transcript(request(card, ("stream", "true")))
    tokens = (*recognized[0].tokens, token(" two ", 1.6, 1.9))
    deltas = [event for part in tokens for event in transcript.add(Commit((part,), 2.0))]
    last = transcript.done()

    assert [event["delta"] for event in deltas] == ["zero", " one", " two"]
    assert last["text"] == "zero one two"
    assert last["type"] == "transcript.text.done"


@pytest.mark.parametrize(
    ("failure", "annotator"),
    [
        (BackendError("GPU 0 is lost"), None),
        (BackendError("diarizer", retryable=False), "diarizer"),
    ],
)
def test_a_failure_that_the_answer_cannot_do_without_is_raised(card, failure, annotator):
    """That of a text filter, which leaves the words, and one that is retried do not raise."""
    transcript = Transcript(request(card))
    transcript.add(Failure(BackendError("busy"), False, 1.0))
    off = BackendError("no figures", retryable=False)
    transcript.add(Failure(off, False, 1.0, annotator="text filter"))

    with pytest.raises(WLKError):
        transcript.add(Failure(failure, annotator is None, 1.0, annotator=annotator))


def test_lists_are_taken_with_and_without_brackets(card):
    """OpenAI's SDK sends brackets; curl users often do not."""
    forms = [request(card, (f"include{end}", "logprobs")) for end in ("", "[]")]

    assert all(form.has_logprobs for form in forms)


def test_a_region_of_a_language_is_accepted(card):
    """A tag such as en-US becomes the backend's code en."""
    assert request(card, ("language", "en-US")).language == "en"


def test_what_cannot_be_honoured_is_named(card):
    """No field is ignored silently."""
    fields = [("temperature", "0.5"), ("keywords[]", "wlk"), ("chunking_strategy", "auto")]

    ignored = request(card, *fields).ignored

    assert ignored == ("chunking_strategy", "keywords", "temperature")


def test_terms_are_those_of_every_field_that_has_some():
    """OpenAI calls the field keywords, servers of faster-whisper call it hotwords."""
    spec = attrs.evolve(TOY, options=(standard_options.KEYTERMS,))
    fields = [("keywords[]", "wlk"), ("keywords[]", ""), ("hotwords", "Silero, gate")]

    found = request(ModelCard.of(spec, "small", None), *fields)

    assert (found.keyterms, found.ignored) == ("wlk, Silero, gate", ())


def test_text_that_is_no_unicode_is_refused(card):
    """A form in UTF-7 can hold half a surrogate pair, which no tokenizer takes."""
    with pytest.raises(RequestError, match=r"`prompt` as valid Unicode"):
        request(card, ("prompt", b"+2AA-".decode("utf-7")))


def test_a_language_that_the_model_takes_from_the_audio_is_named_as_ignored(card):
    """The request is answered all the same."""
    spec = attrs.evolve(card.spec, languages=(), capabilities=())
    found = request(attrs.evolve(card, spec=spec), ("language", "en"))

    assert (found.language, found.ignored) == (None, ("language",))


def test_a_name_that_no_header_can_carry_is_left_out(card):
    """The response lists the names of ignored fields in a header."""
    names = ["a\r\nset-cookie: x", "\u0442", "x" * 65, "good[0]"]

    assert request(card, *((name, "1") for name in names)).ignored == ("good[0]",)


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
    """The error has a status, a code and the field's name."""
    with pytest.raises(RequestError) as caught:
        request(card, *fields)

    assert (caught.value.status, caught.value.code, caught.value.param) == (status, code, param)


def test_a_model_that_does_not_translate_refuses_translations(card):
    """The message names the address to use instead."""
    with pytest.raises(RequestError, match="/v1/audio/transcriptions"):
        request(card, task="translate")


@given(
    fields=strategies.lists(strategies.tuples(strategies.sampled_from(NAMES), strategies.text()))
)
def test_no_form_raises_anything_but_a_request_error(fields):
    """Any text in any field results in a request or a refusal."""
    try:
        parse_form(fields, ModelCard(name="small", spec=TOY), "transcribe")
    except RequestError as error:
        assert error.record()["message"]


def test_channels_are_one_transcript_in_the_order_of_time(card, token):
    """In every format, the words of a channel say which it is."""
    first = [token(" zero", 0.25, 0.5), token(" three", 4.0, 4.5)]
    second = [token(" one", 1.0, 1.5), token(" two", 1.5, 2.0)]

    def answer(name, *fields):
        asked = request(card, ("response_format", name), ("multichannel", "true"), *fields)
        return render_channels(asked, [first, second], 5.0)[1]

    granularities = [("timestamp_granularities[]", name) for name in ("word", "segment")]
    logprobs = ("include[]", "logprobs")
    found = json.loads(answer("verbose_json", *granularities, logprobs))

    assert "logprobs" not in found  # as of one channel
    assert len(json.loads(answer("json", logprobs))["logprobs"]) == 4
    assert found["text"] == "zero one two three"
    assert [each["text"] for each in found["channels"]] == ["zero three", "one two"]
    segments = [(each["text"], each["channel"]) for each in found["segments"]]
    assert segments == [("zero", 0), ("one two", 1), ("three", 0)]
    assert [each["speaker"][-1] for each in found["words"]] == ["1", "2", "2", "1"]
    assert answer("text") == "Channel 1: zero\nChannel 2: one two\nChannel 1: three\n"
    assert answer("vtt").startswith("WEBVTT\n\n00:00:00.250")
    assert answer("srt").count("Channel 2: one two") == 1


@pytest.mark.parametrize("field", [("stream", "true"), ("response_format", "diarized_json")])
def test_channels_are_refused_where_their_order_or_speakers_are_not_known(card, field):
    """Channels are transcribed one after another, and each is a speaker."""
    card = attrs.evolve(card, speaker_delay=1.0)
    with pytest.raises(RequestError, match="`multichannel` as false with `stream`"):
        request(card, field, ("multichannel", "true"))

"""Speakers, translations and turns in a session: late, out of order or failing."""

from __future__ import annotations

import numpy as np
import pytest
from session_events import kinds, text_of

from wlk_conformance.testing import silence
from wlk_conformance.testing.annotators import ScriptedDiarizer
from wlk_core.processor import WorkCounters
from wlk_core.tokens import SpeakerSpan, TranslatedText
from wlk_live.session import End, Endpoint, Failure, SpeakerTurn, Timeline, Translation
from wlk_live.session.timeline import TextLine


class Scripted:
    """Counts calls of the model; those in `fail_at`, counted from 1, raise RuntimeError."""

    def __init__(self, fail_at=()):
        self.fail_at = frozenset(fail_at)
        self.calls = 0
        self.is_closed = False

    def call_model(self):
        """Count a call."""
        self.calls += 1
        if self.calls in self.fail_at:
            raise RuntimeError(f"model call {self.calls} was scripted to fail")

    def close(self):
        """Record the call."""
        self.is_closed = True

    @property
    def stats(self):
        """The number of calls so far."""
        return WorkCounters(decoder_forwards=self.calls)


class ScriptedTranslator(Scripted):
    """Returns each utterance in upper case when it is over."""

    waiting = ()

    def insert_tokens(self, tokens):
        """Append committed tokens."""
        self.waiting += tokens

    def process_iter(self, is_last=False):  # noqa: FBT002 -- pinned
        """Return the translation of the waiting tokens when the utterance is over."""
        if not (is_last and self.waiting):
            return []
        self.call_model()
        tokens, self.waiting = self.waiting, ()
        text = "".join(token.text for token in tokens).upper()
        return [TranslatedText(text, tokens[0].start, tokens[-1].end, "upper")]

    def finish(self):
        """Return the translation of the waiting tokens."""
        return self.process_iter(is_last=True)

    def reset(self):
        """Forget the tokens."""
        self.waiting = ()


class ScriptedTurnDetector(Scripted):
    """Considers a turn over when its text ends with one of `last_words`."""

    seconds = 0.0  # of audio in this utterance

    def __init__(self, last_words, *, fail_at=()):
        super().__init__(fail_at)
        self.last_words = tuple(last_words)

    def insert_audio_chunk(self, audio):
        """Count the audio."""
        self.seconds += len(audio) / 16_000

    def end_of_turn(self, text):
        """Return 1 for a turn that is over, else 0."""
        self.call_model()
        return float(text.rstrip().endswith(self.last_words))

    def reset(self):
        """Forget the audio."""
        self.seconds = 0.0


SPANS = (SpeakerSpan("anna", 0.0, 4.9), SpeakerSpan("bert", 4.9, 10.0))


def test_speakers_come_late_and_label_every_word_once(run, speech):
    """Words are committed without waiting for speakers; in the end the lines have them."""
    events = run(speech, diarizer=ScriptedDiarizer(SPANS, max_delay=3.0))
    timeline = Timeline()
    for event in events:
        timeline.add(event)
    lines = [line for line in timeline.lines if isinstance(line, TextLine)]
    turns = kinds(events, SpeakerTurn)

    assert [event.span for event in turns] == list(SPANS)
    assert turns[0].audio_time >= 4.9 + 3.0
    assert list(dict.fromkeys(line.speaker for line in lines)) == ["anna", "bert"]
    assert text_of(events) == "".join(token.text for line in lines for token in line.tokens)
    assert all((token.start + token.end) / 2 < 4.9 for line in lines for token in line.tokens
               if token.speaker == "anna")  # fmt: skip


def test_the_diarizer_keeps_the_clock_of_the_session_over_pauses(run, speech):
    """A pause that the gate leaves out is reported to the diarizer."""
    audio = np.concatenate((speech, silence(20.0), speech))
    span = SpeakerSpan("anna", 30.2, 31.0)
    (turn,) = kinds(run(audio, diarizer=ScriptedDiarizer([span])), SpeakerTurn)

    assert turn.span == span
    assert 32.0 <= turn.audio_time <= 33.5


def test_each_utterance_is_translated_once(run, speech):
    """A translation follows the endpoint of its utterance, with the times of its words."""
    audio = np.concatenate((speech, silence(3.0), speech))
    events = run(audio, translator=ScriptedTranslator())
    translations = kinds(events, Translation)

    assert "".join(event.text.text for event in translations) == text_of(events).upper()
    assert len(translations) == 2
    order = [type(event) for event in events if isinstance(event, Endpoint | Translation)]
    assert order == [Endpoint, Translation, Endpoint, Translation]


def test_a_turn_detector_ends_an_utterance_before_the_gate_does(run, speech):
    """It does so after 0.4 s of quiet instead of 1.2 s; if it finds no end, the gate decides."""
    audio = np.concatenate((speech, silence(3.0), speech, silence(3.0)))
    early = run(audio, turn_detector=ScriptedTurnDetector(["nine"]), prepares_flush=True)
    late = run(audio, turn_detector=ScriptedTurnDetector(["never"]))
    first, second = kinds(early, Endpoint)[0], kinds(late, Endpoint)[0]

    assert [first.reason, second.reason] == ["turn-detector", "silence"]
    assert first.audio_time <= second.audio_time - 0.5
    assert text_of(run(audio)) == text_of(early) == text_of(late)


@pytest.mark.parametrize(
    ("name", "annotator"),
    [
        ("diarizer", lambda fail_at: ScriptedDiarizer(SPANS, fail_at=fail_at)),
        ("translator", lambda fail_at: ScriptedTranslator(fail_at=fail_at)),
        ("turn_detector", lambda fail_at: ScriptedTurnDetector(["nine"], fail_at=fail_at)),
    ],
)
def test_a_failing_annotator_loses_no_word(name, annotator, run, speech):
    """The failure is one event that is not final; the annotator is switched off."""
    audio = np.concatenate([speech, silence(3.0)] * 6)
    words = run(audio)
    events = run(audio, **{name: annotator({1})})
    (failure,) = kinds(events, Failure)

    assert text_of(events) == text_of(words)
    assert not failure.is_final
    assert not failure.error.retryable
    assert "switched off, and the transcript continues" in str(failure.error)
    assert isinstance(events[-1], End)


class Panic(BaseException):
    """What a Rust library raises."""


def panic(*_arguments):
    """Raise what is no Exception."""
    raise Panic


SPAN_METHOD, TURN_METHOD = "process_iter", "end_of_turn"
GARBAGE = {
    "spans of text": ("diarizer", SPAN_METHOD, lambda _is_last: ["anna"]),
    "no list of spans": ("diarizer", SPAN_METHOD, lambda _is_last: 3),
    "a span without times": (
        "diarizer", SPAN_METHOD, lambda _is_last: [SpeakerSpan("anna", None, 1.0)],
    ),
    "a span that never ends": (
        "diarizer", SPAN_METHOD, lambda _is_last: [SpeakerSpan("anna", 0.0, float("nan"))],
    ),
    "a span of no one": ("diarizer", SPAN_METHOD, lambda _is_last: [SpeakerSpan(None, 0.0, 1.0)]),
    "a panic of a diarizer": ("diarizer", SPAN_METHOD, panic),
    "translations of text": ("translator", "finish", lambda: ["ACHT"]),
    "a translation without text": ("translator", "finish", lambda: [TranslatedText(None, 0, 1)]),
    "a panic of a translator": ("translator", "finish", panic),
    "no probability": ("turn_detector", TURN_METHOD, lambda _text: None),
    "a probability of 7": ("turn_detector", TURN_METHOD, lambda _text: 7.0),
    "a probability that is no number": ("turn_detector", TURN_METHOD, lambda _text: float("nan")),
    "a panic of a turn detector": ("turn_detector", TURN_METHOD, panic),
}  # fmt: skip


@pytest.mark.parametrize(("name", "method", "call"), GARBAGE.values(), ids=GARBAGE)
def test_an_annotator_that_returns_garbage_loses_no_word(
    *, run, speech, monkeypatch, name, method, call
):
    """It is switched off with one event, and the session goes on."""
    annotators = {
        "diarizer": ScriptedDiarizer(SPANS),
        "translator": ScriptedTranslator(),
        "turn_detector": ScriptedTurnDetector(["nine"]),
    }
    audio = np.concatenate([speech, silence(3.0)] * 2)
    monkeypatch.setattr(annotators[name], method, call)

    events = run(audio, **{name: annotators[name]})
    (failure,) = kinds(events, Failure)

    assert text_of(events) == text_of(run(audio))
    assert failure.annotator == name.replace("_", " ")
    assert "switched off, and the transcript continues" in str(failure.error)
    assert isinstance(events[-1], End)


def out_of_memory(_audio):
    """Refuse audio."""
    raise MemoryError


def test_an_annotator_that_missed_audio_stays_off(run, speech, monkeypatch):
    """Its clock would no longer match, so no line gets its labels."""
    diarizer = ScriptedDiarizer(SPANS)
    monkeypatch.setattr(diarizer, "insert_audio_chunk", out_of_memory)
    events = run(speech, diarizer=diarizer)

    assert "diarizer failed: MemoryError: ; it is sw" in str(kinds(events, Failure)[0].error)
    assert [failure.annotator for failure in kinds(events, Failure)] == ["diarizer"]
    assert kinds(events, SpeakerTurn) == []
    assert text_of(events) == text_of(run(speech))


@pytest.mark.parametrize("chunk_seconds", [0.5, 1.0, 60.0])
def test_the_cut_of_the_audio_moves_no_turn(chunk_seconds, run, speech):
    """Pauses are checked for every 0.1 s, however the audio comes."""

    def ends(seconds):
        detector = ScriptedTurnDetector(["nine", "four"])
        audio = np.concatenate((speech, silence(3.0), speech, silence(0.9), speech))
        options = {"turn_detector": detector, "prepares_flush": True}
        events = run(audio, chunk_seconds=seconds, **options)
        return [(event.time, event.reason) for event in kinds(events, Endpoint)]

    assert ends(0.1) == ends(chunk_seconds)
    assert ends(0.1)

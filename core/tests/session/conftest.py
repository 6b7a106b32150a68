"""A stream over an engine that reads coded audio, and a detector that fits it."""

from __future__ import annotations

import threading

import attrs
import numpy as np
import pytest

from wlk_core.online import Hypothesis, LocalAgreementRecognizer, OnlineStream
from wlk_core.processor import SAMPLE_RATE, WorkCounters
from wlk_core.session import Commit, End, Scheduler, Session
from wlk_core.streaming import Word
from wlk_core.testing import CELL_SAMPLES, read_tokens, silence
from wlk_core.testing.coded_audio import CodedToken, encode, script_words
from wlk_core.vad import SilenceGate

DIGIT_WORDS = (
    " zero", " one", " two", " three", " four", " five", " six", " seven", " eight", " nine",
)  # fmt: skip
SCRIPT = [CodedToken(1 + i % 10, 2 + 6 * i, 4) for i in range(20)]


class CodedEngine:
    """Transcribe coded audio; engine calls named in `fail_at`, counted from 1, raise instead."""

    def __init__(self, fail_at=(), before_call=None):
        self.calls = 0
        self.fail_at = frozenset(fail_at)
        self.before_call = before_call

    def __call__(self, audio, *, prompt, language):
        """Return the tokens whose first half cell lies in *audio*."""
        self.calls += 1
        if self.before_call is not None:
            self.before_call()
        if self.calls in self.fail_at:
            raise RuntimeError(f"engine call {self.calls} was scripted to fail")
        half = CELL_SAMPLES // 2
        words = tuple(
            Word(token.start / SAMPLE_RATE, token.end / SAMPLE_RATE, DIGIT_WORDS[token.id - 1], 1.0)
            for token in read_tokens(audio)
            if token.end - token.origin >= half > token.start - token.origin
        )
        work = WorkCounters(encoder_frames=-(-len(audio) // 160))
        return Hypothesis(words=words, language=language or "en", work=work)


class LoudIsSpeech:
    """A detector for coded audio: any sample that is not zero is speech."""

    frame_samples = 512

    def __call__(self, frame):
        """Return 1 for speech, 0 for silence."""
        return 1.0 if np.any(frame) else 0.0

    def reset(self):
        """Keep no state."""


@pytest.fixture
def open_stream():
    """Return a function that opens a stream; its arguments are those of CodedEngine."""

    def open_stream(fail_at=(), before_call=None):
        engine = CodedEngine(fail_at, before_call)
        return OnlineStream(lambda: LocalAgreementRecognizer(engine))

    return open_stream


@pytest.fixture
def detector():
    """Return a speech detector for coded audio."""
    return LoudIsSpeech()


@pytest.fixture
def speech():
    """Return ten seconds of coded audio, float32[n]."""
    return encode(SCRIPT, cells=126)


@pytest.fixture
def words():
    """Return the words of `speech` with their times."""
    return script_words(SCRIPT, DIGIT_WORDS)


@attrs.define
class Clock:
    """A clock that stands still until a test moves it."""

    now: float = 100.0

    def __call__(self):
        """Return the time."""
        return self.now


@attrs.define(eq=False)
class Consumer:
    """Collects the events of a session; `ended` is set by the End."""

    events: list = attrs.field(factory=list)
    ended: threading.Event = attrs.field(factory=threading.Event)
    threads: set = attrs.field(factory=set)

    def __call__(self, events):
        """Take events."""
        self.threads.add(threading.current_thread().name)
        self.events += events
        if isinstance(events[-1], End):
            self.ended.set()

    @property
    def text(self):
        """The committed text."""
        commits = [event for event in self.events if isinstance(event, Commit)]
        return "".join(token.text for event in commits for token in event.tokens)


@pytest.fixture
def clock():
    """Return a clock that stands still."""
    return Clock()


@pytest.fixture
def manual(clock):
    """Return a scheduler without threads."""
    with Scheduler(workers=0, clock=clock) as scheduler:
        yield scheduler


@pytest.fixture
def open_ungated(open_stream):
    """Return a function that opens a session without a gate over coded audio."""

    def open_ungated(*, fail_at=(), before_call=None, **options):
        return Session(open_stream(fail_at, before_call), encoding="f32le", **options)

    return open_ungated


@pytest.fixture
def text(words):
    """Return the text of `speech`."""
    return "".join(word.text for word in words).strip()


@pytest.fixture(scope="session")
def new_consumer():
    """Return the class Consumer."""
    return Consumer


@pytest.fixture
def talk(speech):
    """Return two utterances of ten seconds after, between and before pauses."""
    return np.concatenate((silence(3.0), speech, silence(7.0), speech, silence(4.0)))


@pytest.fixture
def open_session(open_stream, detector):
    """Return a function that opens a session over coded audio, by default with a gate."""

    def open_session(*, fail_at=(), gated=True, **options):
        gate = SilenceGate(detector) if gated else None
        options = {"encoding": "f32le"} | options
        return Session(open_stream(fail_at), gate=gate, **options)

    return open_session

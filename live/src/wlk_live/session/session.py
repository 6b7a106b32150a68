"""A session: audio in, events out, without threads, clocks or sockets of its own."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING

import attrs

from wlk_core.audio import ValidAudio, sealed, valid_copy
from wlk_core.errors import ClockError, ConcurrentCallError, OptionError
from wlk_core.processor import MAX_STREAM_SECONDS, SAMPLE_RATE
from wlk_core.untrusted import real_number, shown
from wlk_live.audio.pcm import PcmReader, Resampler, require_rate
from wlk_live.errors import SessionOverloaded
from wlk_live.session.annotators import Annotators
from wlk_live.session.inbox import Gap, Inbox, Mark, Request
from wlk_live.session.text_filters import TextFilters
from wlk_live.session.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_core.annotators import Diarizer, TextFilter, Translator, TurnDetector
    from wlk_core.errors import WLKError
    from wlk_core.processor import OnlineProcessor
    from wlk_live.audio.pcm import Audio, Encoding
    from wlk_live.session.events import Event
    from wlk_live.vad import SilenceGate


@attrs.frozen(kw_only=True)
class Pending:
    """What the next step of a session is about, for a scheduler of many sessions."""

    audio_time: float = 0.0  #: stream time of the end of the audio received, in seconds
    backlog_seconds: float = 0.0  #: of received audio that no step has taken yet
    #: Whether a commit, a silence or the end has ended an utterance that is not flushed yet.
    is_ending_utterance: bool = False
    retry_delay: float = 0.0  #: seconds to wait before the step, because the last one failed


class Session:
    """
    One stream of audio that becomes one ordered list of events.

    Like h11 for HTTP, a session does no input or output: it takes audio and returns events.
    Files, microphones and servers are loops around it::

        session = Session(backend.create_processor(language="en"), gate=silence_gate())
        for chunk in chunks:
            handle(session.feed(chunk))
        handle(session.finish())

    Audio is one channel, as bytes in `encoding` or as arrays; see `PcmReader`.  Each event comes
    once, in order, with times in seconds on the stream clock; `End` is the last.

    A program that runs many sessions uses the two halves of `feed`: `receive`, `skip`, `commit`,
    `mark` and `end_audio` may be called from any thread at any time and never wait for the model;
    the first four raise StreamClosed once the audio has ended or the session is over.  `step` makes
    at most one call of the processor and returns its events; one thread at a time may call it.

    A failed call is reported as a `Failure` and retried by the next step, before which a loop with
    a clock waits `retry_delay` seconds; `feed` and `finish` retry at once.  After the last attempt
    the failure is final and the session ends; everything committed is returned first.

    Raises OptionError, or AudioFormatError for `encoding` and `rate`, if an argument is invalid.

    Args:
        processor: a new stream of a backend.  The session finishes it; the caller closes it.
        gate: drops pauses and finds endpoints; with None the model gets all audio.
        diarizer: finds the speakers, reported as `SpeakerTurn` events.
        translator: translates committed text, reported as `Translation` events.
        turn_detector: ends an utterance earlier than the gate would; needs a gate.  The caller
            closes all three after the End; the session never does.
        text_filters: rewrite committed text, each the words of the one before it.  Words that they
            have not settled are in the hypothesis, a sentence at most; the translator and the turn
            detector get all words as spoken.  The caller closes them too.
        encoding: the sample format of audio that is given as bytes.
        rate: samples a second of the source, 8,000 to 192,000.
        max_backlog_seconds: seconds of audio that may wait before `receive` refuses more.
        catch_up_after: seconds of waiting audio beyond which the session catches up: the policy
            then decides only at its latest tick.  No audio is left out, but the words can depend on
            when the audio came.  With None they never do.
        prepares_flush: decode the end of an utterance in the first quiet after it, so that its
            words are shown as a hypothesis, and are there when the gate is certain.  For live
            audio: where speech goes on, the work was in vain.  It changes no committed word.

    """

    def __init__(
        self,
        processor: OnlineProcessor,
        *,
        gate: SilenceGate | None = None,
        diarizer: Diarizer | None = None,
        translator: Translator | None = None,
        turn_detector: TurnDetector | None = None,
        text_filters: Sequence[TextFilter] = (),
        encoding: Encoding = "s16le",
        rate: int = SAMPLE_RATE,
        max_backlog_seconds: float = 120.0,
        catch_up_after: float | None = None,
        prepares_flush: bool = False,
    ) -> None:
        self._max_backlog = _seconds("max_backlog_seconds", max_backlog_seconds)
        late_after = math.inf
        if catch_up_after is not None:
            late_after = _seconds("catch_up_after", catch_up_after)
        if gate is not None and gate.is_used:  # its times count from the start of another stream
            raise OptionError("expected a new gate, got one that was used; create one per session")
        rate = require_rate(rate)
        self._reader = PcmReader(encoding, rate=rate)
        self._resampler = None if rate == SAMPLE_RATE else Resampler(rate)
        self._inbox = Inbox()
        self._receiving = threading.Lock()  # held to convert audio, never while the model runs
        self._worker = Worker(
            self._inbox,
            processor,
            gate,
            Annotators(diarizer, translator, turn_detector),
            TextFilters(text_filters),
            catch_up_after=late_after,
            prepares_flush=prepares_flush,
        )
        self._work = self._worker.work()
        #: Whether the End was returned or the session failed; no more events will come.
        self.is_over = False
        self._stepping = threading.Lock()

    @property
    def audio_time(self) -> float:
        """Stream time of the end of the audio received, in seconds."""
        return self._inbox.end

    @property
    def backlog_seconds(self) -> float:
        """Seconds of received audio that no step has taken yet."""
        return self._inbox.waiting_seconds

    @property
    def has_work(self) -> bool:
        """Whether a step would do something now."""
        return not self.is_over and (not self._worker.is_idle or bool(self._inbox.items))

    @property
    def retry_delay(self) -> float:
        """Seconds to wait before the next step, because the last one failed; otherwise 0."""
        return 0.0 if self.is_over else self._worker.retry_delay

    @property
    def pending(self) -> Pending | None:
        """What the next step is about; None if it would do nothing now."""
        if not self.has_work:
            return None
        return Pending(
            audio_time=self._inbox.end,
            backlog_seconds=self._inbox.waiting_seconds,
            is_ending_utterance=self._worker.is_flushing or self._inbox.requests > 0,
            retry_delay=self.retry_delay,
        )

    def receive(self, audio: Audio) -> None:
        """
        Append a copy of *audio*, of any length; never waits for the model.

        Raises:
            AudioFormatError: a wrong type or shape, NaN or infinity; nothing was changed.
            SessionOverloaded: `max_backlog_seconds` of audio wait; nothing was changed.

        """
        with self._receiving:
            # If nothing waits, a piece of any length is taken: one longer than the bound could
            # otherwise never be sent.
            if 0 < (waiting := self._inbox.waiting_seconds) >= self._max_backlog:
                raise SessionOverloaded(
                    f"{waiting:.1f} s of audio wait to be decoded, and the bound is "
                    f"{self._max_backlog:.1f} s; step the session, then send this audio again"
                )
            if isinstance(audio, ValidAudio):  # what a server has read already
                samples = valid_copy(audio)
                self._reader.rest = b""
            else:
                samples = self._reader.read(audio)
            if self._resampler is not None:
                samples = sealed(self._resampler.push(samples))
            self._inbox.put(samples)

    def skip(self, seconds: float) -> None:
        """
        Declare that *seconds* of audio were not captured, for example while a device was lost.

        The clock moves on and the utterance ends; an `AudioGap` is reported.  Raises ClockError
        if *seconds* is negative or longer than a stream can be.
        """
        number = real_number(seconds)
        if number is None or not 0 <= number <= MAX_STREAM_SECONDS:
            raise ClockError(
                f"expected a gap of 0 to {MAX_STREAM_SECONDS:.0f} s (ten years), "
                f"got {shown(seconds)}"
            )
        self._inbox.put(Gap(round(number * SAMPLE_RATE)))

    def commit(self) -> None:
        """
        Declare that the utterance ends with the audio received so far.

        The next steps commit all of its words and report one `Endpoint`, with or without a gate
        and even if no audio came since the last commit.
        """
        self._inbox.put(Request.COMMIT)

    def mark(self, name: str) -> None:
        """
        Request a `Marked` event for when all audio received so far is decoded.

        It is decoded as far as the policy can without later audio, and the mark itself commits
        nothing.  This is how a client on another machine learns what was decoded.
        """
        self._inbox.put(Mark(name))

    def end_audio(self) -> None:
        """Declare that no more audio will come; may be called again."""
        with self._receiving:
            if not self._inbox.is_closed:
                if self._resampler is not None:
                    self._inbox.put(sealed(self._resampler.flush()))
                self._inbox.put(Request.END)
                self._inbox.close()

    def step(self) -> list[Event]:
        """
        Take a piece of audio, or make a call of the processor; return what happened.

        Raises:
            ConcurrentCallError: another thread is stepping this session; nothing was changed.
            StreamClosed: the processor was closed by its owner; the session is over.

        """
        self._step()
        return self._take_events()

    def _step(self) -> None:
        if self.is_over:
            return
        if not self._stepping.acquire(blocking=False):
            raise ConcurrentCallError(
                "another thread is stepping this session; one thread at a time may step it"
            )
        try:
            self._worker.has_called = False
            next(self._work, None)
        except BaseException:
            self._end_session()
            raise
        finally:
            self._stepping.release()
        if self._worker.has_ended:
            self._end_session()

    def _take_events(self) -> list[Event]:
        events, self._worker.events = self._worker.events, []
        return events

    def fail(self, error: WLKError) -> list[Event]:
        """
        End the session because of *error*; return its last events, a final Failure and the End.

        The events of a step that raised come first.  Returns nothing if the End was returned
        before.  Must not be called while a step runs.
        """
        if not self._worker.has_ended:
            self._end_session()
            self._worker.end(error)
        return self._take_events()

    def settle(self) -> list[Event]:
        """
        Commit the words that wait in text filters; return what happened.

        For an owner that abandons the session.  Must not be called while a step runs.
        """
        self._worker.settle()
        return self._take_events()

    def _end_session(self) -> None:
        self.is_over = True
        self._inbox.close()
        self._inbox.clear()

    def feed(self, audio: Audio) -> list[Event]:
        """Receive *audio*, take all the steps that it makes possible, and return what happened."""
        self._take_steps()  # first, so that `receive` does not refuse it
        self.receive(audio)
        self._take_steps()
        return self._take_events()

    def finish(self) -> list[Event]:
        """End the audio, commit everything and return the last events; the last one is the End."""
        self.end_audio()
        self._take_steps()
        return self._take_events()

    def _take_steps(self) -> None:
        while self.has_work:
            self._step()


def _seconds(name: str, value: object) -> float:
    seconds = real_number(value)
    if seconds is None or not 0 <= seconds < math.inf:
        raise OptionError(f"expected `{name}` in seconds, 0 or more, got {shown(value)}")
    return seconds

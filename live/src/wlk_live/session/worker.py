"""Turn what a session received into events, with at most one call of the processor per step."""

from __future__ import annotations

from array import array
import logging
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from wlk_core.audio import ValidAudio, sealed
from wlk_core.errors import BackendError
from wlk_core.processor import MAX_RETRIES, SAMPLE_RATE, SupportsCatchUp, SupportsPreparedFlush
from wlk_core.tokens import Emission, Silence, Transcript
from wlk_live.session.events import (
    AudioGap,
    Commit,
    End,
    Endpoint,
    Failure,
    HypothesisChange,
    Lag,
    LatencySummary,
    Marked,
    SilenceSpan,
    SpeakerTurn,
    SpeechStarted,
    Translation,
)
from wlk_live.session.inbox import Gap, Mark, Request
from wlk_live.session.preparation import Preparation
from wlk_live.vad import SilenceEnded, SilenceStarted, SpeechAudio

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from wlk_core.errors import WLKError
    from wlk_core.processor import OnlineProcessor
    from wlk_core.tokens import ASRToken
    from wlk_live.session.annotators import Annotators
    from wlk_live.session.events import EndpointReason, Event
    from wlk_live.session.inbox import Inbox
    from wlk_live.session.text_filters import TextFilters
    from wlk_live.vad import GateEvent, SilenceGate

_LOGGER = logging.getLogger(__name__)

_LAG_SECONDS = 2.0  # a Lag is reported when more audio than this waits to be decoded
# Seconds of quiet after which the turn detector is asked, and after which its answer ends the turn.
# Of 92 pauses inside sentences 28 % are longer than 0.4 s.  50 % are longer than 0.3 s, where
# smart-turn v3 ends three times as many: docs/turns.md.
_TURN_QUERY, _TURN_PAUSE = 0.2, 0.4
_TURN_SAMPLES = SAMPLE_RATE // 10  # samples between two checks for a pause
_TURN_OVER = 0.5  # the probability at which a turn is over

_RETRY_SECONDS = 0.1  # before the first retry of a failed call; each further pause is twice as long

Work: TypeAlias = "Generator[None]"  # yields at the end of each step


class Worker:
    """Process what a session received; see `Session` for the arguments."""

    def __init__(
        self,
        inbox: Inbox,
        processor: OnlineProcessor,
        gate: SilenceGate | None,
        annotators: Annotators,
        filters: TextFilters,
        *,
        catch_up_after: float,
        prepares_flush: bool,
    ) -> None:
        # Events that the session has not returned yet; a step that raises loses none.
        self.events: list[Event] = []
        self.is_idle = True  # whether everything taken from the inbox is done
        self.is_flushing = False  # whether an utterance is being ended
        self.has_called = False  # whether this step has called the processor or a detector
        self.has_ended = False  # whether the End was reported
        self.retry_delay = 0.0  # seconds to wait before the next step, which retries a failed call
        self._inbox = inbox
        self._processor = processor
        self._gate = gate
        self._annotators = annotators
        annotators.report_failure = self._report_annotator
        self._filters = filters
        filters.report_failure = lambda error: self._report_annotator(error, "text filter")
        self._catch_up_after = catch_up_after
        self._catches_up = False
        self._prepares_flush = prepares_flush
        self._preparation = Preparation()
        self._position = 0  # samples given to the processor, as audio or as silence
        self._received_position = 0  # samples taken from the inbox, gaps included
        self._latencies = array("f")  # emission latency of each word in seconds
        self._emission = Emission((), 0.0, 0.0)  # the latest
        self._hypothesis = ""  # the text last reported
        self._prepared: Transcript | None = None  # the words of a prepared flush
        self._prepared_up_to = 0.0  # stream time of their end
        self._is_lagging = False
        self._is_speaking = False  # whether there was speech or a word since the last endpoint
        self._utterance_text = ""  # committed since the last endpoint, for the turn detector
        self._turn_is_over: bool | None = None  # the turn detector's answer in this pause

    def work(self) -> Work:
        """Work through the inbox, in steps of at most one call of the processor."""
        # A step also does what follows from its call, so that a chunk takes one turn of a scheduler
        # and its hypothesis comes with its words.  It ends before a second call or another item.
        try:
            while not self.has_ended:
                if self.has_called and self._inbox.items:
                    yield
                self._catch_up_if_late()
                self.is_idle = not self._inbox.items
                if self.is_idle:
                    yield
                    continue
                match item := self._inbox.take():
                    case ValidAudio():  # first, because arrays compare by element
                        yield from self._decode(item)
                        self.has_called = True  # even in a pause: a detector takes 4 ms a second
                    case Request.END:
                        yield from self._end()
                    case Request.COMMIT:
                        yield from self._commit_utterance()
                    case Mark(name):
                        yield from self._prepare_flush()  # even if late: its text is wanted now
                        self._report_mark(name)
                    case Gap(samples):
                        yield from self._pass_gap(samples)
        except BackendError as error:  # from the last attempt, see `_call_processor`
            self._commit(error.committed, is_last=True)
            self._annotate(is_last=True)
            self.end(error)

    def end(self, error: WLKError | None = None) -> None:
        """Report the End, after the final failure if the session ends because of one."""
        self.has_ended = True
        self.settle()
        if error is not None:
            self.events.append(Failure(error, is_final=True, audio_time=self._inbox.end))
        latency = None
        if self._latencies:
            median, p90 = np.percentile(self._latencies, (50, 90)).tolist()
            latency = LatencySummary(words=len(self._latencies), median=median, p90=p90)
        stats = self._processor.stats
        self.events.append(End(audio_time=self._inbox.end, stats=stats, latency=latency))

    def settle(self) -> None:
        """Commit the words that wait in text filters."""
        self._commit((), is_last=True)

    def _decode(self, audio: ValidAudio) -> Work:
        self._report_lag()
        pieces = [audio]
        # A late session takes all waiting audio at once; otherwise none of its ticks are skipped.
        while self._catches_up and (piece := self._inbox.take_audio()) is not None:
            pieces.append(piece)
        gate = self._gate
        has_turns = gate is not None and self._annotators.has_turn_detector
        for piece in pieces:
            self._received_position += len(piece)
            if gate is None:
                self._is_speaking = True  # there is no detector
                self._insert(piece)
                continue
            # In parts of at most 0.1 s, so that longer pieces do not move turns.
            size = _TURN_SAMPLES if has_turns else len(piece)
            for start in range(0, len(piece), size):
                yield from self._apply(gate.push(piece[start : start + size]))
                yield from self._detect_turn(gate)
        yield from self._drain()
        self._report_hypothesis()
        self._annotate()
        if self._inbox.items:  # a late session has no time for work that may be in vain
            return
        # What is prepared before the query of a turn detector would depend on how the audio is cut,
        # and the detector's answer depends on the words.
        if not has_turns or (gate is not None and gate.quiet_seconds >= _TURN_QUERY):
            yield from self._prepare_flush()

    def _prepare_flush(self) -> Work:
        """Decode the end of the utterance once in each quiet that the gate holds, and show it."""
        gate, processor = self._gate, self._processor
        if not (self._prepares_flush and gate is not None and gate.holds_quiet):
            return
        is_due = self._preparation.is_due(
            self._position,
            self._received_position,
            quiet=gate.quiet_seconds,
            quiet_share=gate.quiet_share,
            is_likely=self._turn_is_over is True,
        )
        if not (is_due and isinstance(processor, SupportsPreparedFlush)):
            return
        self._preparation.begin(self._position)
        if self.has_called:
            yield
        self.has_called = True
        try:
            self._prepared = processor.prepare_flush()
            self._prepared_up_to = self._position / SAMPLE_RATE
        except BackendError as error:
            # Nobody has asked for these words yet; the flush decodes them, as its next attempt.
            _LOGGER.warning("the end of an utterance could not be decoded in advance: %s", error)
            return
        self._report_hypothesis()

    def _drain(self) -> Work:
        # In calls of a few steps each, where a flush would decode everything in one.
        while self._processor.has_backlog:
            yield from self._call_processor(self._processor.process_iter)

    def _flush(self, call: Callable[[], Emission]) -> Work:
        yield from self._drain()
        yield from self._call_processor(call)
        self._preparation.flush(self._position)
        self._prepared = None
        self.settle()
        self._report_hypothesis()

    def _commit_utterance(self) -> Work:
        self.is_flushing = True
        if self._gate is not None and self._gate.holds_quiet:
            # The flush of these words was prepared; the quiet after them is silence.
            yield from self._apply(self._gate.end_speech(), "commit")
        else:
            yield from self._apply(() if self._gate is None else self._gate.cut())
            yield from self._flush(lambda: self._processor.process_iter(is_last=True))
            self._end_utterance(self._position, "commit")
        self.is_flushing = False

    def _pass_gap(self, samples: int) -> Work:
        start = self._received_position
        self._received_position = end = start + samples
        events: list[GateEvent] = [SilenceStarted(start), SilenceEnded(start, end)]
        yield from self._apply(events if self._gate is None else self._gate.skip(samples))
        self.events.append(AudioGap(start / SAMPLE_RATE, end / SAMPLE_RATE, self._inbox.end))

    def _end(self) -> Work:
        self.is_flushing = True
        yield from self._apply(() if self._gate is None else self._gate.flush())
        yield from self._flush(self._processor.finish)
        if self._is_speaking:
            self._end_utterance(self._position, "end")
        if self._annotators.has_translator:
            yield  # the last words do not wait for their translation
        self._annotate(is_last=True)
        self.end()

    def _apply(
        self, events: Iterable[GateEvent], silence_reason: EndpointReason = "silence"
    ) -> Work:
        for event in events:
            if isinstance(event, SpeechAudio):
                if event.is_detected and not self._is_speaking:
                    self._is_speaking = True
                    start = event.start_sample / SAMPLE_RATE
                    self.events.append(SpeechStarted(start, self._inbox.end))
                self._insert(event.samples)
            elif isinstance(event, SilenceStarted):
                was_flushing, self.is_flushing = self.is_flushing, True
                yield from self._flush(self._processor.start_silence)
                if self._is_speaking or silence_reason == "commit":
                    self._end_utterance(event.at_sample, silence_reason)
                self.is_flushing = was_flushing
            elif event.end_sample > event.start_sample:
                silence = Silence(event.start_sample / SAMPLE_RATE, event.end_sample / SAMPLE_RATE)
                length = (event.end_sample - event.start_sample) / SAMPLE_RATE
                self._processor.end_silence(length)
                self._annotators.insert_silence(length)
                self._position += event.end_sample - event.start_sample
                self.events.append(SilenceSpan(silence, self._inbox.end))

    def _insert(self, audio: np.ndarray[Any, np.dtype[np.float32]]) -> None:
        self._position += len(audio)
        if self._gate is not None:
            audio = sealed(audio)  # the gate's own copy of valid audio
        self._processor.insert_audio_chunk(audio, self._position / SAMPLE_RATE)
        if self._annotators.running:
            self._annotators.insert_audio(audio)

    def _detect_turn(self, gate: SilenceGate) -> Work:
        if not self._annotators.has_turn_detector:
            return
        quiet = gate.quiet_seconds
        if quiet < _TURN_QUERY or not self._is_speaking:
            self._turn_is_over = None
            return
        if self._turn_is_over is None:
            # The answer depends on the text, which must not depend on the speed of the engine.
            yield from self._drain()
            self._report_hypothesis()
            yield from self._prepare_flush()
            text = self._utterance_text + self._spoken.text
            probability = self._annotators.end_of_turn(text)
            self._turn_is_over = probability is not None and probability >= _TURN_OVER
            yield from self._prepare_flush()  # if it was not, because too much was in vain
        if self._turn_is_over and quiet >= _TURN_PAUSE:
            yield from self._apply(gate.end_speech(), "turn-detector")

    def _annotate(self, *, ends_utterance: bool = False, is_last: bool = False) -> None:
        if not self._annotators.running:
            return
        spans = self._annotators.speaker_spans(is_last=is_last)
        translations = self._annotators.translations(ends_utterance=ends_utterance, is_last=is_last)
        self.events += [SpeakerTurn(span, self._inbox.end) for span in spans]
        self.events += [Translation(text, self._inbox.end) for text in translations]

    def _report_annotator(self, error: BackendError, kind: str) -> None:
        self.events.append(Failure(error, False, self._inbox.end, annotator=kind))

    def _call_processor(self, call: Callable[[], Emission]) -> Work:
        """Call the processor until the call succeeds, one attempt per step."""
        for attempt in range(1 + MAX_RETRIES):  # contract ERR-03
            if self.has_called:
                yield
            self.has_called = True
            try:
                self.retry_delay = 0.0
                before, self._emission = self._emission, call()
            except BackendError as error:
                if not error.retryable or error.is_exhausted or attempt == MAX_RETRIES:
                    raise
                self.events.append(Failure(error, is_final=False, audio_time=self._inbox.end))
                self.retry_delay = _RETRY_SECONDS * 2**attempt
            else:
                if before.processed_up_to != self._emission.processed_up_to:
                    self._prepared = None
                self._commit(self._emission.committed)
                return

    def _commit(self, tokens: tuple[ASRToken, ...], *, is_last: bool = False) -> None:
        """Report *tokens* as far as the text filters have settled them, with *is_last* all."""
        if not tokens and not is_last:
            return
        if settled := self._filters.push(tokens, is_last=is_last):
            self._latencies.extend(max(0.0, self._inbox.end - token.end) for token in settled)
            self.events.append(Commit(settled, self._inbox.end))
        if not tokens:
            return
        self._is_speaking = True
        if self._annotators.running:  # models that know words as they are spoken
            self._annotators.insert_tokens(tokens)
            if self._annotators.has_turn_detector:
                self._utterance_text += "".join(token.text for token in tokens)

    def _end_utterance(self, sample: int, reason: EndpointReason) -> None:
        self._is_speaking = False
        self._turn_is_over = None
        self._utterance_text = ""
        self.events.append(Endpoint(sample / SAMPLE_RATE, reason, self._inbox.end))
        self._annotators.end_utterance()
        self._annotate(ends_utterance=True)

    def _catch_up_if_late(self) -> None:
        # Begins above the bound and ends at half of it, so that it does not flicker.
        bound = self._catch_up_after / (2 if self._catches_up else 1)
        is_late = self._inbox.waiting_seconds > bound
        if is_late != self._catches_up and isinstance(self._processor, SupportsCatchUp):
            self._catches_up = is_late
            if is_late:
                self._processor.begin_catch_up()
            else:
                self._processor.end_catch_up()
            self._report_lag()

    def _report_lag(self) -> None:
        # Once when too much audio waits, and once when none does.
        waiting = self._inbox.waiting_seconds
        is_lagging = waiting > (0.0 if self._is_lagging else _LAG_SECONDS)
        if is_lagging != self._is_lagging:
            self._is_lagging = is_lagging
            self.events.append(Lag(waiting, self._inbox.end))

    @property
    def _spoken(self) -> Transcript:
        """The hypothesis, with the words of a prepared flush."""
        # They stay until the processor has decoded more audio: if speech goes on, they would vanish
        # and come again.
        return self._processor.get_buffer() if self._prepared is None else self._prepared

    @property
    def _transcript(self) -> Transcript:
        """The hypothesis after the words that wait in a text filter."""
        transcript = self._spoken
        waiting = self._filters.waiting
        return Transcript((*waiting, *transcript.tokens)) if waiting else transcript

    def _report_hypothesis(self) -> None:
        transcript = self._transcript
        if transcript.text != self._hypothesis:
            self._hypothesis = transcript.text
            self.events.append(HypothesisChange(transcript, self._inbox.end))

    def _report_mark(self, name: str) -> None:
        waiting = self._filters.waiting
        stable = min([self._emission.stable_up_to, *(token.start for token in waiting[:1])])
        processed = self._emission.processed_up_to
        if self._prepared is not None:
            processed = max(processed, self._prepared_up_to)
        marked = Marked(
            name=name,
            transcript=self._transcript,
            processed_up_to=processed,
            stable_up_to=stable,
            stats=self._processor.stats,
            audio_time=self._inbox.end,
        )
        self.events.append(marked)

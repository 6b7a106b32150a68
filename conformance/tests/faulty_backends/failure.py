"""Faults around an engine that fails: ERR."""

from __future__ import annotations

from functools import partial
import os
import threading

import attrs
import numpy as np

from faulty_backends.base import (
    FaultyBackend,
    FaultyStream,
    LosingStream,
    again,
    alone,
    by_tests,
    each,
    edit,
    in_sessions,
)
from wlk_conformance import EngineFault
from wlk_core import Emission
from wlk_core.errors import BackendError, StreamBroken
from wlk_core.plugins import Hypothesis, LocalAgreementRecognizer

NOTHING = Emission((), 0.0, 0.0)


def is_broken(error):
    """Return whether the stream is over."""
    return isinstance(error, StreamBroken)


@alone("ERR-01", on="failed")
def turns_failure_into_silence(stream, error, call):
    """Returns no text if its engine fails at a silence."""
    if call != "start_silence" or is_broken(error):
        raise error
    return NOTHING


@by_tests("ERR-01", on="failed")
def turns_failure_for_short_audio_into_silence(stream, error, call):
    """Returns no text if its engine fails on less than 0.4 s of audio."""
    if stream.stream.stats.audio_seconds > 0.4 or is_broken(error):
        raise error
    return NOTHING


@by_tests("ERR-01", on="failed")
def turns_missing_memory_into_silence(stream, error, call):
    """Returns no text if its engine has no memory."""
    if not isinstance(error.__cause__, MemoryError) or is_broken(error):
        raise error
    return NOTHING


@by_tests("ERR-02")
class FailedTurnChangesSpeaker(FaultyStream):
    """Has the speaker of a turn from then on, although the call of it failed."""

    ahead = None

    def new_speaker(self, change):
        try:
            return super().new_speaker(change)
        except BackendError:
            self.ahead = change
            raise

    def changed(self, emission, call):
        if self.ahead is None or call == "new_speaker":
            return emission
        start, speaker = self.ahead.start, self.ahead.speaker
        return each(emission, lambda t: edit(t, speaker=speaker) if t.start >= start else t)


@by_tests("ERR-02")
class ForgetsLanguageAfterFailure(FaultyStream):
    """Writes words in capitals, as another language would, after a call of a forced one failed."""

    has_failed = False

    def failed(self, error, call):
        self.has_failed = True
        raise error

    def changed(self, emission, call):
        if not self.has_failed or self.language is None:
            return emission
        return each(emission, lambda token: edit(token, text=str.upper))


@by_tests("LIFE-10")
class KeepsAudioOfLastFailure(FaultyStream):
    """Keeps the audio of the last stream that failed on its backend."""

    audio = ()

    def received(self, audio):
        self.audio = (*self.audio, np.array(audio))
        return audio

    def failed(self, error, call):
        self.backend.marks["audio"] = self.audio
        raise error

    def close(self):
        self.stream.close()
        self.audio = ()


@alone("ERR-01", on="failed")
def hides_the_cause(stream, error, call):
    """Raises BackendError without the cause from finish."""
    if call != "finish" or is_broken(error):
        raise error
    raise BackendError(str(error)) from None


@by_tests("ERR-01", on="failed")
def replaces_the_cause(stream, error, call):
    """Raises an error whose cause is one of its own, and not the failure of the engine."""
    if is_broken(error):
        raise error
    raise BackendError("the step failed") from BackendError("the engine failed")


@by_tests("ERR-01", on="failed")
def hides_the_cause_at_turns(stream, error, call):
    """Raises BackendError without the cause from a speaker turn."""
    if call != "new_speaker" or is_broken(error):
        raise error
    raise BackendError(str(error)) from None


@by_tests("ERR-01", on="failed")
def hides_the_cause_of_flush(stream, error, call):
    """Raises BackendError without the cause from `process_iter(is_last=True)`."""
    if call != "is_last" or is_broken(error):
        raise error
    raise BackendError(str(error)) from None


@by_tests("LIFE-10")
class LeavesTimerAfterFailure(FaultyStream):
    """Starts a timer for each step, and cancels it only if the step succeeds."""

    def made(self, call, make):
        timer = threading.Timer(30.0, int)
        timer.daemon = True
        timer.start()
        emission = super().made(call, make)
        timer.cancel()
        return emission


@by_tests("LIFE-10")
class LeavesFileOpenAfterFailure(FaultyStream):
    """Opens a file for each flush, and closes it only if the flush succeeds."""

    def made(self, call, make):
        if call == "process_iter":
            return super().made(call, make)
        file = os.open(os.devnull, os.O_RDONLY)
        emission = super().made(call, make)
        os.close(file)
        return emission


@by_tests("LIFE-10")
class LeavesThreadOnceBroken(FaultyStream):
    """Starts a thread to recover once it is broken, which waits for ever."""

    def failed(self, error, call):
        marks = self.backend.marks
        if is_broken(error) and marks.setdefault("threads", 0) < 50:
            marks["threads"] += 1
            threading.Thread(target=threading.Event().wait, daemon=True).start()
        raise error


@by_tests("ERR-02")
class SwapsAudioInsertedDuringFailure(FaultyStream):
    """Swaps the halves of a chunk that was inserted while a step failed."""

    def begin(self):
        self.waiting = []
        self.is_stepping = False

    def insert_audio_chunk(self, audio, end_time=None):
        if self.is_stepping:
            self.waiting.append(np.array(audio))
        else:
            super().insert_audio_chunk(audio, end_time)

    def made(self, call, make):
        self.is_stepping = True
        try:
            return super().made(call, make)
        except BackendError:
            halves = [np.array_split(chunk, 2)[::-1] for chunk in self.waiting]
            self.waiting = [np.concatenate(pair) for pair in halves]
            raise
        finally:
            self.is_stepping = False
            for chunk in self.waiting:
                super().insert_audio_chunk(chunk)
            self.waiting = []


@alone("ERR-01", on="process_iter")
def drops_error_after_text(stream, is_last=False):
    """Drops the error of a step if earlier steps of the same call committed text."""
    try:
        return FaultyStream.process_iter(stream, is_last)
    except BackendError as error:
        if is_broken(error) or not error.committed:
            raise
        return FaultyStream.process_iter(stream, is_last)


@by_tests("ERR-01", on="failed")
def takes_time_out_for_silence(stream, error, call):
    """Returns no words if the client of its engine times out, and raises all other errors."""
    if call not in ("process_iter", "is_last") or not isinstance(error.__cause__, TimeoutError):
        raise error
    return NOTHING


@by_tests("ERR-01")
class SwallowsEngineErrors(FaultyBackend):
    """Takes any error of its engine for an answer without words."""

    def __init__(self):
        super().__init__()
        self._open_stream = _open_swallowing


def _open_swallowing(engine, config, calls):
    transcribe = calls.wrap(engine.transcribe)

    def swallow(audio, **options):
        try:
            return transcribe(audio, **options)
        except EngineFault:
            return Hypothesis(words=())

    return partial(LocalAgreementRecognizer, swallow, language=config.language)


@in_sessions("ERR-01")
class HidesLaterErrors(FaultyStream):
    """Turns an engine error into silence after the tenth call of a stream."""

    last = NOTHING

    def changed(self, emission, call):
        self.last = emission
        return emission

    def failed(self, error, call):
        if self.calls <= 10 or is_broken(error):
            raise error
        return attrs.evolve(self.last, committed=())


@in_sessions("ERR-01", on="failed")
def raises_raw_error_at_silence(stream, error, call):
    """Raises the engine's own error at a silence."""
    if call == "start_silence" and error.__cause__ is not None:
        raise error.__cause__
    raise error


@alone("ERR-02")
class KeepsStateOfFailedCall(FaultyBackend):
    """Keeps the cache of a failed engine call, and loses a word when the call is repeated."""

    def __init__(self):
        super().__init__()
        self._open_stream = _open_with_cache


class _CachedTranscriber:
    """An engine call that mistakes a repeated buffer for new audio after the cached audio."""

    def __init__(self, engine):
        self.engine = engine
        self.cached = b""

    def __call__(self, audio, **options):
        """Lose the last word of a buffer that the cache has."""
        hypothesis = self.engine.transcribe(audio, **options)
        is_cached = audio.tobytes() == self.cached
        self.cached = audio.tobytes()
        return attrs.evolve(hypothesis, words=hypothesis.words[:-1]) if is_cached else hypothesis


def _open_with_cache(engine, config, calls):
    def make():
        return LocalAgreementRecognizer(
            calls.wrap(_CachedTranscriber(engine)),
            language=config.language,
            tick_seconds=config.options["tick_seconds"],
        )

    return make


@by_tests("ERR-02")
class LosesWordOnFailure(LosingStream):
    """Loses the word it was about to commit when its engine failed in process_iter."""

    def failed(self, error, call):
        self.is_due = self.is_due or call in ("process_iter", "is_last")
        raise error


@by_tests("ERR-02")
class FinishedByFailedFinish(FaultyStream):
    """Counts as finished although finish failed."""

    def finish(self):
        if self.is_due:
            return Emission((), self.stream.stats.audio_seconds, 0.0)
        return super().finish()

    def failed(self, error, call):
        self.is_due = call == "finish" and not is_broken(error)
        raise error


@in_sessions("ERR-02")
class LosesWordAtSecondFailure(LosingStream):
    """Loses the next word after the second failure of its engine."""

    failures = 0

    def failed(self, error, call):
        self.failures += 1
        self.is_due = self.is_due or self.failures == 2
        raise error


@by_tests("ERR-02")
class LosesWordAtTwoFailuresInARow(LosingStream):
    """Gives up the next word once its engine has failed twice in a row."""

    in_a_row = 0

    def failed(self, error, call):
        self.in_a_row += 1
        self.is_due = self.is_due or self.in_a_row == 2
        raise error

    def changed(self, emission, call):
        self.in_a_row = 0
        return super().changed(emission, call)


@in_sessions("ERR-02")
class RepeatsWordAfterFailedFlush(FaultyStream):
    """Commits the last word of a flush twice if the flush had to be repeated."""

    def failed(self, error, call):
        self.is_due = call in ("start_silence", "finish")
        raise error

    def changed(self, emission, call):
        if not self.strikes(emission):
            return emission
        return attrs.evolve(
            emission, committed=(*emission.committed, again(emission.committed[-1]))
        )


@alone("ERR-03", on="failed")
def retries_forever(stream, error, call):
    """Never raises StreamBroken from process_iter."""
    if is_broken(error) and call in ("process_iter", "is_last"):
        raise BackendError("try again") from error
    raise error


@by_tests("ERR-03", on="end_silence")
def accepts_silence_when_broken(stream, seconds, offset=None):
    """Accepts a silence once it is broken."""
    try:
        FaultyStream.end_silence(stream, seconds, offset)
    except StreamBroken:
        return


@by_tests("ERR-03", on="failed")
def takes_turn_when_broken(stream, error, call):
    """Returns nothing for a speaker turn once it is broken, instead of refusing it."""
    if call != "new_speaker" or not is_broken(error):
        raise error
    return Emission((), stream.stream.stats.audio_seconds, 0.0)


@by_tests("ERR-03", on="reset")
def stays_broken_after_reset(stream):
    """Refuses a reset once it is broken."""
    stream.stream.end_silence(0.0)
    FaultyStream.reset(stream)


@by_tests("ERR-03", on="insert_audio_chunk")
def forgets_failures_at_insert(stream, audio, end_time=None):
    """Counts its failures since the last insert, so it never breaks while audio is inserted."""
    FaultyStream.insert_audio_chunk(stream, audio, end_time)
    stream.stream._failures = 0


@by_tests("ERR-03", on="failed")
def counts_no_failures_of_finish(stream, error, call):
    """Can be finished again and again, because only failures of steps are counted."""
    if call == "finish" and not is_broken(error):
        stream.stream._failures = 0
    raise error


@in_sessions("ERR-03")
class BreaksAtSecondFailure(FaultyStream):
    """Breaks the stream at the second failure in a row."""

    in_a_row = 0

    def failed(self, error, call):
        self.in_a_row += 1
        if self.in_a_row == 2:
            raise StreamBroken("the engine failed twice") from error.__cause__
        raise error

    def changed(self, emission, call):
        self.in_a_row = 0
        return emission


@in_sessions("ERR-03")
class CountsFailuresOverReset(FaultyStream):
    """Adds the failures before a reset to those after it, and breaks too early."""

    lasting = (*FaultyStream.lasting, "failures")
    failures = 0

    def failed(self, error, call):
        self.failures += 1
        if self.failures < 4 or is_broken(error):
            raise error
        raise StreamBroken(f"broken: {error}") from error.__cause__

    def changed(self, emission, call):
        self.failures = 0
        return emission


@alone("ERR-04")
class FailureAffectsOthers(LosingStream):
    """Loses a word of the other streams when its engine fails in process_iter."""

    def failed(self, error, call):
        for other in list(self.backend.streams):
            is_hit = call == "process_iter" and other.number > self.backend.streams_opened - 5
            other.is_due = other.is_due or (is_hit and other is not self)
        raise error


@by_tests("ERR-04")
class FailureBreaksNeighbours(FaultyStream):
    """Breaks every stream of the backend once engine calls of one have failed four times."""

    def process_iter(self, is_last=False):
        if self.backend.marks.get("failures", 0) >= 4:
            raise StreamBroken("the engine failed too often")
        return super().process_iter(is_last)

    def failed(self, error, call):
        self.backend.marks["failures"] = self.backend.marks.get("failures", 0) + 1
        raise error


@by_tests("ERR-04")
class SparesFailingEngine(FaultyStream):
    """Makes no call of any stream for a while after four calls in a row have failed."""

    def made(self, call, make):
        spared = self.backend.marks.get("spared", 0)
        if spared:
            self.backend.marks["spared"] = spared - 1
            raise BackendError("the engine has failed repeatedly; it is given time to recover")
        result = super().made(call, make)
        self.backend.marks["failures"] = 0
        return result

    def failed(self, error, call):
        failures = self.backend.marks.get("failures", 0) + 1
        self.backend.marks.update(failures=failures % 4, spared=8 if failures == 4 else 0)
        raise error


@in_sessions("ERR-04")
class BrokenNeighbourLosesWord(LosingStream):
    """Loses a word of the other streams when one is broken."""

    def failed(self, error, call):
        for other in list(self.backend.streams) if is_broken(error) else ():
            other.is_due = other is not self
        raise error


@by_tests("ERR-02")
class AlignAttLosesWordAfterFailure(LosingStream):
    """Loses a word after a failed call with its second policy."""

    def failed(self, error, call):
        self.is_due = self.policy == "alignatt"
        raise error


@by_tests("ERR-01")
class TakesEndOfConnectionForEndOfAnswer(FaultyStream):
    """Returns no error if the engine fails in the last call of a flush, after earlier ones."""

    def failed(self, error, call):
        if call == "process_iter" or not self.words or is_broken(error):
            raise error
        return Emission((), self.stream.stats.audio_seconds, 0.0)


class UnrepeatedStream(LosingStream):
    """A stream that loses the next word if a call of *failing* failed and *next_call* follows."""

    failing = "process_iter"
    next_call = ()
    has_failed = False

    def failed(self, error, call):
        self.has_failed = call == self.failing
        raise error

    def changed(self, emission, call):
        self.is_due = self.is_due or (self.has_failed and call in self.next_call)
        self.has_failed = False
        return super().changed(emission, call)


@by_tests("ERR-02")
class FlushSkipsFailedStep(UnrepeatedStream):
    """Loses a word if a flush follows a failed step."""

    next_call = ("start_silence",)


@by_tests("ERR-02")
class ChunkReplacesFailedStep(UnrepeatedStream):
    """Loses a word if audio follows a failed step."""

    def received(self, audio):
        self.is_due = self.is_due or self.has_failed
        return audio


@by_tests("ERR-02")
class SilenceEndsFailedFlush(UnrepeatedStream):
    """Loses a word if a silence ends whose beginning failed."""

    failing = "start_silence"

    def waited(self, seconds):
        self.is_due = self.is_due or self.has_failed
        return seconds


@by_tests("ERR-02")
class HypothesisVanishesAtFailure(FaultyStream):
    """Shows no hypothesis between a failed call and the next one that succeeds."""

    has_failed = False

    def failed(self, error, call):
        self.has_failed = True
        raise error

    def changed(self, emission, call):
        self.has_failed = False
        return emission

    def shown(self, tokens):
        return () if self.has_failed else tokens


@by_tests("ERR-01")
class TakesLookupErrorForNoWords(FaultyBackend):
    """Takes a KeyError or IndexError of its engine for an answer without words."""

    def __init__(self):
        super().__init__()
        self._open_stream = self.opened

    def opened(self, engine, config, calls):
        """Decode with a function that hides such errors."""
        call = calls.wrap(engine.transcribe)

        def transcribe(audio, **arguments):
            try:
                return call(audio, **arguments)
            except LookupError:
                return Hypothesis()

        return partial(LocalAgreementRecognizer, transcribe, language=config.language)


@by_tests("ERR-04")
class FailedFinishAffectsOthers(LosingStream):
    """Loses a word of the other streams when its engine fails in finish."""

    def failed(self, error, call):
        for other in list(self.backend.streams) if call == "finish" else ():
            other.is_due = other is not self
        raise error

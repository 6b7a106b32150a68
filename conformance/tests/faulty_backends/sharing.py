"""Faults of many streams on one model: ISO."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from functools import partial
import threading

import attrs
from fakes.wlk_fakes import MATCHER

from faulty_backends.base import (
    FaultyBackend,
    FaultyStream,
    LosingStream,
    again,
    alone,
    by_tests,
    each,
    edit,
    end_of,
    in_sessions,
    without,
)
from faulty_backends.engine import Matcher
from faulty_backends.life_cycle import ReopeningStream
from wlk_conformance import EngineFault, EngineFaults
from wlk_conformance.scripted import SCRIPTED_SPEC
from wlk_core import SAMPLE_RATE, Emission
from wlk_core.errors import ConcurrentCallError, StreamClosed
from wlk_core.options import Option
from wlk_core.plugins import EngineCalls

MANY = 4  # streams, or threads


@alone("ISO-01")
def mixes_interleaved_streams(stream, emission, call):
    """Loses a word when four streams take turns on one thread."""
    if call != "process_iter":
        return emission
    turns = stream.backend.marks.setdefault("turns", [])
    turns.append((threading.get_ident(), id(stream)))
    del turns[: -2 * MANY]
    is_mixed = (
        len({thread for thread, _ in turns}) == 1
        and len({stream for _, stream in turns}) == MANY
        and turns[:MANY] == turns[MANY:]
    )
    return without(emission) if is_mixed else emission


def clear_caches(of_stream, *, and_its_own):
    """Make all streams of the backend lose a word, this one included."""
    for stream in list(of_stream.backend.streams):
        stream.is_due = and_its_own or stream is not of_stream


@in_sessions("ISO-01")
class FifthStreamLosesWord(LosingStream):
    """Loses the first word of the fifth stream of a backend."""

    def begin(self):
        self.is_due = self.number == 5 and not self.resets


@in_sessions("ISO-01")
class CloseClearsCaches(LosingStream):
    """Clears the caches of all streams of the backend when one is closed, which loses a word."""

    def close(self):
        self.stream.close()
        clear_caches(self, and_its_own=True)


@in_sessions("ISO-01")
class ResetClearsCaches(LosingStream):
    """Clears the caches of the other streams of the backend when one is reset."""

    def reset(self):
        super().reset()
        clear_caches(self, and_its_own=False)


class OverlapBackend(FaultyBackend):
    """A backend that knows which engine calls overlap."""

    def __init__(self):
        super().__init__()
        self.wrap = self.engine_calls.wrap
        self.inside = self.overlaps = 0
        self.answer = None
        self.engine_calls.wrap = self.mixing

    def mixing(self, function, **options):
        """Wrap an engine call."""
        return partial(self.mixed, self.wrap(function, **options))

    def mixed(self, call, *args, **kwargs):
        """Make the call, and answer it wrongly if another one began or ended during it."""
        self.inside += 1
        is_shared, before = self.inside > 1, self.answer
        try:
            hypothesis = call(*args, **kwargs)
            is_shared = is_shared or self.inside > 1 or self.answer is not before
        finally:
            self.inside -= 1
        other, self.answer = self.answer, hypothesis
        self.overlaps += is_shared
        words = self.words_of(hypothesis, other) if is_shared else hypothesis.words
        return attrs.evolve(hypothesis, words=words)

    def words_of(self, hypothesis, other):
        """Return the answer to a call that overlapped another one."""
        return ()


@alone("ISO-02")
class MixesOverlappingCalls(OverlapBackend):
    """Returns no words if two engine calls overlap."""


@by_tests("ISO-02")
class TakesAnswerOfOtherCall(OverlapBackend):
    """Returns the answer of the last call to a call that overlaps it."""

    def words_of(self, hypothesis, other):
        return hypothesis.words if other is None else other.words


@by_tests("ISO-02")
class LosesWordAfterThirdOverlap(OverlapBackend):
    """Loses the last word of each engine call that overlaps another one, from the fourth on."""

    def words_of(self, hypothesis, other):
        return hypothesis.words if self.overlaps <= 3 else hypothesis.words[:-1]


@by_tests("ISO-02")
class SharesABuffer(FaultyBackend):
    """Puts the audio of each engine call into one buffer, for less time than a thread may run."""

    buffer = None

    def __init__(self):
        super().__init__()
        self.wrap = self.engine_calls.wrap
        self.engine_calls.wrap = self.buffering

    def buffering(self, function, **options):
        """Wrap an engine call."""

        def call(audio, **arguments):
            self.buffer = audio
            return function(self.window(), **arguments)

        return self.wrap(call, **options)

    def window(self):
        """Return the audio in the buffer."""
        return self.buffer


class _Deadlocked(FaultyStream):
    """A stream that takes locks of its backend."""

    def lock(self, name, *, seconds=3.0):
        """Return the lock *name* of the backend if it was taken; a deadlock ends after seconds."""
        lock = self.backend.marks.setdefault(name, threading.Lock())
        return lock if lock.acquire(timeout=seconds) else None

    @contextmanager
    def locked(self, *names):
        """Take locks in this order."""
        with ExitStack() as stack:
            for name in names:
                if (lock := self.lock(name)) is not None:
                    stack.callback(lock.release)
            yield


@by_tests("ISO-02")
class TakesLocksInTwoOrders(_Deadlocked):
    """Takes a lock of the model, then one of a cache, and in a reset in the other order."""

    def made(self, call, make):
        with self.locked("model"):
            emission = super().made(call, make)
            with self.locked("cache"):
                return emission

    def reset(self):
        with self.locked("cache", "model"):
            super().reset()


@by_tests("ISO-02")
class KeepsLockBetweenCalls(_Deadlocked):
    """Takes a lock of the model in a step and keeps it until the next call; a reset needs it."""

    kept = None

    def made(self, call, make):
        if self.kept is None:
            self.kept = self.lock("model", seconds=0.0)
        elif call != "process_iter":
            self.kept = self.kept.release()
        return super().made(call, make)

    def reset(self):
        with self.locked("model"):
            super().reset()


@alone("ISO-03")
class NeedsOneThread(FaultyStream):
    """Fails when a fourth thread calls."""

    threads = ()

    def changed(self, emission, call):
        self.threads = tuple({*self.threads, threading.current_thread()})
        if len(self.threads) >= MANY:
            raise RuntimeError(f"{call} was called by a thread without a stream of the device")
        return emission


class ThreadedStream(FaultyStream):
    """A stream that notes which thread inserted last."""

    thread = None

    def insert_audio_chunk(self, audio, end_time=None):
        super().insert_audio_chunk(audio, end_time)
        self.thread = threading.current_thread()

    @property
    def is_elsewhere(self):
        """Whether the calling thread is another one."""
        return self.thread not in (None, threading.current_thread())


@by_tests("ISO-03")
class LosesWordOfAnotherThread(ThreadedStream):
    """Loses the words of a step on another thread than the insert."""

    def changed(self, emission, call):
        return attrs.evolve(emission, committed=()) if self.is_elsewhere else emission


@by_tests("ISO-03")
class FinishNeedsTheThreadOfInserts(ThreadedStream):
    """Fails at a finish on another thread than the insert."""

    def finish(self):
        if self.is_elsewhere:
            raise RuntimeError("finish was called by a thread without a stream of the device")
        return super().finish()


@alone("ISO-04")
def leaves_hook(stream, emission, call):
    """Leaves a hook on the shared model at each step."""
    # The call, because a stream would be kept in memory.
    stream.backend.marks[f"hook of {id(stream):#x}"] = call
    return emission


@by_tests("ISO-04", on="process_iter")
def replaces_method_in_step(stream, is_last=False):
    """Sets a hook on the shared backend in a step, and removes it after it."""
    stream.backend.marks["hook"] = stream.changed
    try:
        return FaultyStream.process_iter(stream, is_last)
    finally:
        stream.backend.marks.pop("hook", None)


@by_tests("ISO-04", on="failed")
def leaves_mode_after_failure(stream, error, call):
    """Leaves its backend in another mode after an exception."""
    stream.backend.mode = call
    raise error


@alone("ISO-05")
class SharesItsLanguage(FaultyStream):
    """Keeps the language on the backend, where the next stream changes it."""

    def begin(self):
        self.backend.marks["language"] = self.language or "en"

    def changed(self, emission, call):
        language = self.backend.marks["language"]
        return each(emission, lambda token: edit(token, detected_language=language))


@alone("ISO-05", on="taken")
def keeps_language_it_was_switched_to(backend, arguments):
    """Leaves its engine in a second language for the next stream, if that names none."""
    marks, language = backend.marks, arguments.get("language")
    before, switched = marks.get("language"), marks.get("switched")
    marks["language"] = language
    marks["switched"] = language if (before, language) == ("en", "de") else None
    return {**arguments, "language": switched if language is None else language}


@by_tests("ISO-05")
def language_of_the_other_caller(stream, emission, call):
    """Reports the language of the stream that was called before, if that is another one."""
    before = stream.backend.marks.get("language", stream.language)
    stream.backend.marks["language"] = stream.language
    return each(emission, lambda token: edit(token, detected_language=before or "en"))


@in_sessions("ISO-05")
class KeepsLanguageOfFirstStream(FaultyStream):
    """Reports the language of the first stream of the backend in every other one."""

    def begin(self):
        self.backend.marks.setdefault("language", self.language)

    def changed(self, emission, call):
        language = self.backend.marks["language"] or "en"
        return each(emission, lambda token: edit(token, detected_language=language))


@by_tests("ISO-05")
class SharesItsTick(FaultyStream):
    """Keeps the tick on the backend, where the next stream changes it, and the end of words."""

    def begin(self):
        self.backend.marks["tick"] = self.tick

    def changed(self, emission, call):
        if self.backend.marks["tick"] == self.tick:
            return emission
        return each(emission, lambda token: edit(token, end=token.start))


@by_tests("ISO-05", on="taken")
def keeps_tick_of_first_stream(backend, arguments):
    """Opens every stream with the tick of the first one, if that one had a tick of its own."""
    backend.marks.setdefault("tick", arguments.get("tick_seconds"))
    tick = backend.marks["tick"]
    return arguments if tick is None else {**arguments, "tick_seconds": tick}


@alone("ISO-06", on="process_iter")
def accepts_overlapping_calls(stream, is_last=False):
    """Returns an empty emission for a call that overlaps another call."""
    try:
        return FaultyStream.process_iter(stream, is_last)
    except ConcurrentCallError:
        return Emission((), 0.0, 0.0)


@alone("ISO-06")
class AcceptsTurnsInSteps(FaultyStream):
    """Returns an empty emission for a speaker turn that overlaps another call."""

    def new_speaker(self, change):
        try:
            return super().new_speaker(change)
        except ConcurrentCallError:
            return Emission((), 0.0, 0.0)


@alone("ISO-06")
class AcceptsStepsInFlushes(FaultyStream):
    """Returns an empty emission for a step that overlaps a flush, but not for other calls."""

    is_flushing = False

    def made(self, call, make):
        if self.is_flushing and call == "process_iter":
            return Emission((), 0.0, 0.0)
        was_flushing, self.is_flushing = self.is_flushing, call != "process_iter"
        try:
            return super().made(call, make)
        finally:
            self.is_flushing = was_flushing


_CLOSED = []


class _Sibling(FaultyStream):
    def begin(self):
        self.closed_before = len(_CLOSED)

    def finish(self):
        if len(_CLOSED) > self.closed_before and _CLOSED[-1] is not self.backend:
            raise RuntimeError("the framework was shut down")
        return super().finish()


@alone("ISO-06")
class SupportsOneBackend(FaultyBackend):
    """Breaks the streams of every other backend of the process when it closes."""

    def __init__(self):
        super().__init__(_Sibling)

    def close(self):
        super().close()
        _CLOSED.append(self)


@by_tests("ISO-06")
class IgnoresCloseInStep(FaultyStream):
    """Ignores a close by another thread during a step."""

    is_stepping = False

    def process_iter(self, is_last=False):
        self.is_stepping = True
        try:
            return super().process_iter(is_last)
        finally:
            self.is_stepping = False

    def close(self):
        if not self.is_stepping:
            self.stream.close()


@by_tests("ISO-06")
class HoldsStateWhenClosedInStep(IgnoresCloseInStep):
    """Holds a megabyte if another thread closes it during a step."""

    is_held = False

    def close(self):
        self.is_held = self.is_held or self.is_stepping
        self.stream.close()

    def counted(self, stats):
        return edit(stats, state_bytes=2**20) if self.is_held else stats


class _HidesClose(FaultyStream):
    """Calls `shortened` for a flush that another thread's close cuts short."""

    def made(self, call, make):
        was_closed = self.stream._is_closing
        try:
            return super().made(call, make)
        except StreamClosed as error:
            if was_closed or not self.stream._is_closing:
                raise
            return self.shortened(error)


@alone("ISO-06")
class FlushHidesClose(_HidesClose):
    """Returns from a flush that another thread's close cuts short as if it were complete."""

    def shortened(self, error):
        return Emission(error.committed, end_of(self), end_of(self))


@by_tests("ISO-06")
class FlushLosesWordsAtClose(_HidesClose):
    """Returns no words from a flush that another thread's close cuts short."""

    def shortened(self, error):
        return Emission((), 0.0, 0.0)


@by_tests("ISO-06")
class FlushFailsAtClose(_HidesClose):
    """Raises another error from a flush that another thread's close cuts short."""

    def shortened(self, error):
        raise RuntimeError("the queue is empty") from error


BATCHING = {"capabilities": SCRIPTED_SPEC.capabilities | {"batching"}}


class TogetherCalls(EngineCalls):
    """Engine calls whose batches the backend answers."""

    def __init__(self, backend):
        super().__init__(is_batching=backend.is_batching)
        self._backend = backend

    def wrap(self, function, *, cut=None):
        batched = self.wrap_batch(self._backend.answers, cut=cut)

        def call(*args, **arguments):
            try:
                return batched(partial(function, *args, **arguments))
            except EngineFault:
                self._backend.fault()
                raise

        return call


class BatchingBackend(FaultyBackend):
    """The scripted backend, without a fault, with its engine calls taken together."""

    is_batching = True

    def __init__(self):
        super().__init__()
        self.engine_calls = TogetherCalls(self)

    @property
    def is_together(self):
        """Whether a run waits for calls of several streams."""
        return bool(EngineFaults.of(self.engine_calls).together)

    def answers(self, requests):
        """Answer each request of a batch."""
        return [request() for request in requests]

    def fault(self):
        """React to a call that failed on request; the sound backend does nothing."""


@alone("ISO-07", spec=BATCHING)
class MixesAnswersOfBatch(BatchingBackend):
    """Returns the answers of a forced batch in the wrong order."""

    def answers(self, requests):
        answers = super().answers(requests)
        return answers[::-1] if self.is_together else answers


@by_tests("ISO-07", spec=BATCHING)
class SortsBatchByLength(BatchingBackend):
    """Sorts the calls of a forced batch by the length of their audio, and not back."""

    def answers(self, requests):
        by_length = sorted(requests, key=lambda request: len(request.args[0]))
        return super().answers(by_length if self.is_together else requests)


@by_tests("ISO-07", spec=BATCHING)
class SortsLargeBatchByLength(BatchingBackend):
    """Sorts the calls of a batch by the length of their audio if it has more than four."""

    def answers(self, requests):
        by_length = sorted(requests, key=lambda request: len(request.args[0]))
        return super().answers(by_length if len(requests) > 4 else requests)


@alone("ISO-07", spec=BATCHING)
class FailsWholeBatch(BatchingBackend):
    """Fails a call of another stream when one stream of a batch fails."""

    faults = 0

    def answers(self, requests):
        """Fail for all streams, and once more for the first of them alone."""
        if self.faults:
            self.faults -= 1
            raise EngineFault("the fault of another stream")
        return super().answers(requests)

    def fault(self):
        self.faults = 2 if self.is_together else 0


@alone("ISO-07", spec=BATCHING)
class TakesNothingTogether(BatchingBackend):
    """Declares batching, but runs each engine call alone."""

    is_batching = False


@by_tests("ISO-05")
class ResetTakesTickOfNewestStream(ReopeningStream):
    """Has the tick of the stream that was opened last after a reset."""

    def __init__(self, stream, backend, **chosen):
        super().__init__(stream, backend, **chosen)
        backend.marks["tick"] = self.tick

    def tick_after_reset(self):
        return self.backend.marks["tick"]


@by_tests("ISO-04")
class KeepsModeOfFailedStep(FaultyStream):
    """Leaves its backend in another mode after a failed step, until a call succeeds."""

    def failed(self, error, call):
        if call == "process_iter":
            self.backend.mode = "decoding"
        raise error

    def changed(self, emission, call):
        self.backend.__dict__.pop("mode", None)
        return emission


@by_tests("ISO-04")
class SwitchesModeForFlush(FaultyStream):
    """Switches the shared engine to another mode for a flush, and back after it."""

    def made(self, call, make):
        if call == "process_iter":
            return super().made(call, make)
        self.backend.marks["mode"] = "final"
        try:
            return super().made(call, make)
        finally:
            del self.backend.marks["mode"]


_loaded = []


@attrs.define
class _SharedModel:
    users: int = 0


@by_tests("ISO-06")
class CountsEveryClose(FaultyBackend):
    """Counts the backends on a shared model, which the last one releases, at each call of close."""

    model = _SharedModel()

    def __init__(self):
        super().__init__()
        if self.model.users <= 0:
            type(self).model = _SharedModel()
        self.used = self.model
        self.used.users += 1

    def create_processor(self, **arguments):
        if self.used.users <= 0:
            raise StreamClosed("the model was released")
        return super().create_processor(**arguments)

    def close(self):
        super().close()
        self.used.users -= 1


@by_tests("ISO-06")
class LoadClearsCacheOfOthers(FaultyBackend):
    """Clears a cache of its module when it is loaded, and streams in use lose their next word."""

    def __init__(self):
        super().__init__(LosingStream)
        for backend in _loaded:
            for stream in list(backend.streams):
                stream.is_due = stream.stream.stats.audio_seconds > 0
        _loaded.append(self)

    def close(self):
        super().close()
        if self in _loaded:
            _loaded.remove(self)


class PacedStream(FaultyStream):
    """A stream that takes the newest pace on its backend, if it was opened with one."""

    def begin(self):
        self.is_paced = self.backend.marks.get("is_paced", False)

    def made(self, call, make):
        recognizer = self.stream._recognizer
        if self.is_paced and hasattr(recognizer, "_tick"):
            recognizer._tick = self.backend.marks["tick"]
        return super().made(call, make)


PACE = Option(name="pace", scope="stream", type=int, default=None, minimum=1, help="a pace")


@by_tests("ISO-05", spec={"options": (*SCRIPTED_SPEC.options, PACE)})
class SharesNewestPace(FaultyBackend):
    """Opens streams with an option, each of which takes the newest value of all that have one."""

    def __init__(self):
        super().__init__(PacedStream)

    def taken(self, arguments):
        """Note the pace."""
        pace = arguments.pop("pace", None)
        self.marks["is_paced"] = pace is not None
        if pace is not None:
            self.marks["tick"] = SAMPLE_RATE * pace // 8
        return arguments


class _KeptPace(FaultyStream):
    """A stream with the pace of the first one that had the same audio."""

    heard = b""

    def insert_audio_chunk(self, audio, end_time=None):
        super().insert_audio_chunk(audio, end_time)
        self.heard = self.heard or audio.tobytes()
        pace = self.backend.paces.setdefault(self.heard, self.backend.pace_of.get(self.number))
        recognizer = self.stream._recognizer
        if pace is not None and hasattr(recognizer, "_tick"):
            recognizer._tick = SAMPLE_RATE * pace // 8


@by_tests("ISO-05", spec={"options": (*SCRIPTED_SPEC.options, PACE)})
class KeepsPaceForAudio(FaultyBackend):
    """Keeps how audio was decoded, for streams that bring it again with another option."""

    def __init__(self):
        super().__init__(_KeptPace)
        self.paces, self.pace_of = {}, {}

    def taken(self, arguments):
        self.pace_of[self.streams_opened + 1] = arguments.pop("pace", None)
        return arguments


@by_tests("ISO-02", spec=MATCHER)
class PreparesAtFirstCall(Matcher):
    """Prepares its engine at the first call, and fails if another thread calls it meanwhile."""

    state = "new"

    def __call__(self, audio, **arguments):
        """Prepare, in several functions."""
        if self.state == "preparing":
            raise RuntimeError("used before it was prepared")
        if self.state == "new":
            self.state = "preparing"
            for digit in range(10):
                self.prepare(digit)
            self.state = "ready"
        return super().__call__(audio, **arguments)

    def prepare(self, digit):
        """Prepare the template of a digit."""


@by_tests("COM-04")
class BeginsWithWordOfAnother(FaultyStream):
    """Repeats its first word if the stream before it was closed without a flush."""

    def begin(self):
        self.is_due = self.backend.marks.pop("unfinished", False)

    def changed(self, emission, call):
        if not self.strikes(emission):
            return emission
        first = emission.committed[0]
        return attrs.evolve(emission, committed=(first, again(first), *emission.committed[1:]))

    def close(self):
        if self.calls and not self.flushes:
            self.backend.marks["unfinished"] = True
        self.stream.close()

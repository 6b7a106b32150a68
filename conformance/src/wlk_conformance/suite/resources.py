"""Rules RES: the state that a stream holds and the work that it costs, counted, not timed."""

from __future__ import annotations

from contextlib import closing, suppress
from functools import partial
from itertools import count, pairwise
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from wlk_conformance.backend_under_test import FREE_TEXTS
from wlk_conformance.compare import words_of
from wlk_conformance.rules import NotApplicable, rule
from wlk_conformance.scripted import DIGIT_WORDS
from wlk_conformance.sessions.reports import COUNTERS
from wlk_conformance.side_effects import memory_traced
from wlk_conformance.stimuli import sustained
from wlk_conformance.suite.rounds import MINUTE, PAUSE, Loop, cut_to, round_seconds, rounds
from wlk_conformance.testing import partition
from wlk_core import SAMPLE_RATE, ChangeSpeaker
from wlk_core.errors import AudioFormatError, BackendError, OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from wlk_conformance.backend_under_test import BackendUnderTest
    from wlk_core import OnlineProcessor

SECONDS = 10.0  # length of a round, without a pause between rounds
SLOW_SECONDS = 8.0  # the same on a slow engine
ZEROS = 5.0  # seconds before each pause, as a muted microphone sends them
SLOW_ZEROS = 4.0  # the same on a slow engine
GROWTH = 1.02  # the last round relative to an early one, if each ends in a pause
UNEVEN = 1.25  # the same without pauses, because rounds trim their buffers at other places
SPAN = 24  # rounds that are compared with as many before them
LEAK = 700  # bytes that a round may leave allocated, because buffers are cut at words
SLOW_LEAK = 8192  # the same for short rounds, which end when a buffer of 30 s is just full
PAUSE_LEAK = 1024  # bytes that a pause and the zeros before it may leave
SLOW_PAUSE_LEAK = 1536  # the same where each engine call leaves some in pools that fill slowly
LEFT = 1300  # bytes that a reset, a turn or a stream may leave; real engines leave up to 1000
READS = 100  # at once
FILLING = 5  # times as many calls until a bounded cache must be full
OWN_WORDS = 45  # in the texts of a stream, which a prompt has room for
LOOKS = (5.0, 7.0)  # seconds of speech that are older than max_delay when a stream is read
DETOKENISED = 9  # ids detokenised at most for each id that the model emitted


class ResourceRules:
    """Rules of memory and work."""

    @rule("RES-01", "ids or text of the whole stream are kept, or trimmed at pauses only")
    def test_state_is_bounded(self, wlk: BackendUnderTest) -> None:
        """
        The state of a stream is bounded; a backend that declares `bounded-state` counts it.

        If a minute and a pause repeat, the smallest `stats.state_bytes` of the second half of ten
        minutes is at most 1.02 x that of the first half.  Every second pause lasts ten minutes.
        Without pauses, and in noise if words are known exactly, minute 10 is at most 1.25 x minute
        2, because buffers are cut at other places.  With --long there are sixty minutes.
        """
        for kind in _loops(wlk):
            values = [state for state in rounds(wlk, kind).state_bytes if state is not None]
            if not values:
                assert not wlk.has("bounded-state"), (
                    "bounded-state is declared, but state_bytes is None: count it or drop the claim"
                )
                raise NotApplicable("state_bytes is not counted")
            if kind == "pauses":
                _check_low(wlk, values)
            else:
                _check_growth(wlk, "state_bytes", values, total=max, kind=kind)

    @rule("RES-01", "a list of silences, or of what was decoded in them, is kept", since="2.0")
    def test_silence_leaves_no_memory(self, wlk: BackendUnderTest) -> None:
        """
        Memory that Python allocates for a stream does not grow with silence.

        Zeros and a pause of ten minutes repeat, and the smallest memory after some pauses is
        compared with that after as many pauses before.
        """
        stimulus = wlk.speech(2, seed=2)
        zeros = np.zeros(round((ZEROS if wlk.is_coded else SLOW_ZEROS) * SAMPLE_RATE), np.float32)
        stream = wlk.backend.create_processor(**wlk.stream_options)

        def rest() -> Iterator[None]:
            for chunk in partition(zeros, 1.0):
                _step(stream, chunk)
            stream.start_silence()
            stream.end_silence(PAUSE)
            yield

        allowed = PAUSE_LEAK if wlk.is_coded else SLOW_PAUSE_LEAK
        with closing(stream):
            _step(stream, stimulus.audio)
            rise = _rise(rest, first=6, span=24 if wlk.is_coded else 9, allowed=allowed)
        assert rise <= allowed, (
            f"each time, {len(zeros) / SAMPLE_RATE:g} s of zeros and {PAUSE:g} s of silence left "
            f"{rise} bytes allocated, {allowed} allowed: something is kept for each of them, or "
            "for each second"
        )

    @rule(
        "RES-01",
        "what was shown, or who asked, is noted at each read",
        "the error of each failed call is kept, with its audio",
        "the answers to prepared flushes are kept by their audio",
        since="2.0",
    )
    def test_calls_leave_no_memory(self, wlk: BackendUnderTest) -> None:
        """Memory that Python allocates does not grow with reads, resets, turns or failures."""
        utterances = _utterances(wlk)
        stream = wlk.backend.create_processor(**wlk.stream_options)
        bad = np.full(SAMPLE_RATE, np.nan, dtype=np.float32)

        def hundred_reads_and_empty_chunks() -> None:
            for _ in range(READS):
                stream.get_buffer()
                stream.stats  # noqa: B018 -- a read is what is tested
                stream.has_backlog  # noqa: B018
                stream.insert_audio_chunk(bad[:0])

        def turn() -> None:
            stream.insert_audio_chunk(next(utterances))
            stream.new_speaker(ChangeSpeaker(1, 0.0))  # type: ignore[attr-defined]

        def reset() -> None:
            stream.insert_audio_chunk(next(utterances))
            stream.finish()
            stream.reset()

        def refused_chunk() -> None:
            with suppress(AudioFormatError):
                stream.insert_audio_chunk(bad)
                stream.start_silence()  # IN-02 judges a stream that takes it

        def prepared_flush() -> None:
            _step(stream, next(utterances))
            stream.prepare_flush()  # type: ignore[attr-defined]
            stream.start_silence()

        def failed_call() -> None:
            stream.insert_audio_chunk(next(utterances))
            with wlk.faults.failing((1,)), suppress(BackendError):
                stream.start_silence()
            stream.start_silence()

        def warmup() -> None:
            wlk.backend.warmup()

        _step(stream, next(utterances))
        acts = [hundred_reads_and_empty_chunks, reset, refused_chunk, warmup]
        acts += [turn] if wlk.has("speaker-turns") else []
        acts += [prepared_flush] if callable(getattr(stream, "prepare_flush", None)) else []
        acts += [failed_call] if wlk.engine_calls is not None else []
        _check_memory_of(acts)
        stream.close()

    @rule(
        "RES-01",
        "a list on the backend is never emptied",
        "what a stream leaves is removed where it finishes, and not where it closes",
        "what is prepared for a prompt is kept for each prompt",
        since="2.0",
    )
    def test_streams_leave_no_memory(self, wlk: BackendUnderTest) -> None:
        """
        Nor does it with streams: finished or not, refused, or with texts of their own.

        A bounded cache of the backend may fill, if it is full after sixty of them.
        """
        utterances = _utterances(wlk)

        def finished_stream() -> None:
            stream = wlk.backend.create_processor(**wlk.stream_options)
            stream.insert_audio_chunk(next(utterances))
            stream.finish()
            stream.close()

        def unfinished_stream() -> None:
            stream = wlk.backend.create_processor(**wlk.stream_options)
            _step(stream, next(utterances))
            stream.close()

        def refused_stream() -> None:
            with suppress(OptionError):
                wlk.backend.create_processor(language="xx-nowhere").close()

        numbers = count(100)

        def stream_with_its_own_texts() -> None:
            own = dict.fromkeys(texts, _digit_words(next(numbers)))
            with suppress(OptionError):  # not every model of a backend takes them
                wlk.backend.create_processor(**wlk.stream_options, **own).close()

        texts = {option.name for option in wlk.spec.all_options} & {*FREE_TEXTS} - {*wlk.options}
        acts = [finished_stream, unfinished_stream, refused_stream]
        _check_memory_of([*acts, *([stream_with_its_own_texts] if texts else [])])

    # The last test of RES-01, because it takes the longest.
    @rule("RES-01", "not all state is counted in state_bytes", since="2.0")
    def test_memory_that_is_measured_does_not_grow(self, wlk: BackendUnderTest) -> None:
        """
        Memory that Python allocates for a stream does not grow, whatever its counters report.

        Each round has as much speech as zeros.  The smallest memory of some rounds is compared with
        that of as many rounds before, so a window may grow and shrink.  A bounded cache of the
        backend may fill.
        """
        seconds = SECONDS if wlk.is_coded else SLOW_SECONDS
        audio = cut_to(wlk.speech(round(seconds * 0.6), seed=23, gap=(0.2, 0.7), tail=0.0), seconds)
        audio[len(audio) // 2 :] = 0

        def feed(stream: OnlineProcessor) -> Iterator[None]:  # no driver, which keeps the tokens
            for chunk in partition(audio, 1.0):
                _step(stream, chunk)
                yield

        allowed, span = (LEAK, SPAN) if wlk.is_coded else (SLOW_LEAK, 3)
        for arguments in ({}, *wlk.policy_variants):
            try:
                stream = wlk.backend.create_processor(**{**wlk.stream_options, **arguments})
            except OptionError:  # not every model has every policy of its backend
                continue
            with closing(stream):
                rise = _rise(partial(feed, stream), first=3, span=span, allowed=allowed)
            wlk.notes.append(f"{max(0, rise)} bytes more after each round, measured")
            assert rise <= allowed, (
                f"each round of {seconds:g} s of a stream with {arguments or 'the default policy'} "
                f"left {rise} bytes allocated, {allowed} allowed, although it may hold more in "
                "some rounds than in others"
            )

    @rule("RES-02", "the whole list of ids is detokenised at each call, or attended to")
    def test_work_does_not_grow(self, wlk: BackendUnderTest) -> None:
        """
        Work per second of audio does not grow.

        If a minute and a pause repeat, each work counter of minute 10 is at most 1.02 x minute 2.
        Without pauses, and in noise if words are known exactly, 1.25 x is allowed, because buffers
        are cut at other places.  With --long the last minute is the sixtieth.
        """
        for kind in _loops(wlk):
            loop = rounds(wlk, kind).stats
            counted = [name for name in COUNTERS if getattr(loop[-1], name) is not None]
            if not counted:
                raise NotApplicable("no work is counted")
            for name in counted:
                sums = [getattr(stats, name) or 0 for stats in loop]
                values = [after - before for before, after in pairwise(sums)]
                _check_growth(wlk, name, values, total=sum, kind=kind)

    @rule("RES-02", "the engine runs more often the longer the stream is", since="2.0")
    def test_engine_calls_that_are_counted_do_not_grow(self, wlk: BackendUnderTest) -> None:
        """The number of engine calls per second of audio does not grow."""
        for kind in _loops(wlk):
            calls = rounds(wlk, kind).calls
            if not calls:
                raise NotApplicable("engine calls cannot be counted (see SupportsEngineCalls)")
            _check_growth(wlk, "engine calls", calls, total=sum, kind=kind, slack=1)

    @rule("RES-03", "a word waits for the next word, which may never come", kinds="G,S")
    def test_the_declared_delay_holds(self, wlk: BackendUnderTest) -> None:
        """Audio older than the declared `max_delay` is committed or in the hypothesis."""
        delay = wlk.max_delay
        if delay is None:
            raise NotApplicable("no max_delay is declared", "not declared")
        stimulus = wlk.speech(10, seed=21, gap=(0.3, 0.9), tail=delay + 1.0)
        driver = wlk.stream()
        for chunk in stimulus.chunks(0.5):
            driver.insert(chunk)
            driver.drain()
            backlog = driver.clock - driver.processed_up_to
            assert backlog <= delay, f"the backlog is {backlog:.2f} s, declared: {delay:g} s"
            shown = (*driver.tokens, *driver.processor.get_buffer().tokens)
            due = [word for word in stimulus.words if word.end < driver.clock - delay]
            assert len(shown) >= len(due) or not wlk.is_coded, (
                f"{due[len(shown)].text!r} ended more than {delay:g} s ago and is not shown yet"
            )
        driver.finish()  # a policy may commit nothing before a flush
        wlk.require_tokens(driver.tokens, stimulus)
        for arguments in wlk.policy_variants:
            _check_shown_in_time(wlk, arguments)

    @rule("RES-03", "what is spoken without a pause is not shown before it ends", since="2.0")
    def test_speech_without_a_pause_is_shown(self, wlk: BackendUnderTest) -> None:
        """
        So is speech without a pause: at least half of the words that a flush would have returned.

        That is tested on connected words, or on a sustained sound if no words are known.
        """
        delay = wlk.max_delay
        if delay is None:
            raise NotApplicable("no max_delay is declared", "not declared")
        seconds = LOOKS[-1] + delay
        stimulus = wlk.speech(round(5 * seconds), seed=21, gap=(0.0, 0.0), lead=0.0, tail=0.0)
        if not wlk.is_recognisable:
            stimulus = wlk.log_stimulus(sustained(stimulus, seconds))
        driver = wlk.stream()
        hidden: list[str] = []
        is_judged = False
        for look in LOOKS:
            driver.feed(stimulus.cut(look + delay)[0][round(driver.clock * SAMPLE_RATE) :])
            driver.drain()
            shown = words_of((*driver.tokens, *driver.processor.get_buffer().tokens))
            flushed = wlk.stream(stimulus.cut(look)[0])
            flushed.finish()
            due = words_of(flushed.tokens)
            is_judged = is_judged or bool(due)
            if len(shown) < len(due) / 2:
                hidden.append(
                    f"after {look + delay:g} s, {' '.join(shown)!r} is committed or shown, but a "
                    f"flush after {look:g} s returns {' '.join(due)!r}"
                )
        driver.finish()
        if not is_judged:
            wlk.require_tokens((), stimulus)
        # Once may be chance, because a model may take words back.
        assert len(hidden) < len(LOOKS), f"{'; '.join(hidden)}; the declared delay is {delay:g} s"

    @rule("RES-04", "the hypothesis is detokenised from its first id at each call")
    def test_each_id_is_detokenised_a_few_times(self, wlk: BackendUnderTest) -> None:
        """At most 9 ids are detokenised for each id that the model emits."""
        stats = rounds(wlk, "pauses").stats[-1]
        if stats.detokenised_ids is None:
            raise NotApplicable("detokenised_ids is not counted")
        emitted = stats.decoder_forwards or stats.decoder_positions
        if not emitted:
            raise NotApplicable("the ids that the model emits are not counted")
        ratio = stats.detokenised_ids / emitted
        wlk.notes.append(f"{ratio:.2f} ids detokenised per id emitted")
        assert ratio <= DETOKENISED, (
            f"{ratio:.1f} ids were detokenised per id emitted, {DETOKENISED} allowed"
        )


def _check_shown_in_time(wlk: BackendUnderTest, arguments: dict[str, Any]) -> None:
    """Assert that half of the words that a stream commits are shown within its declared delay."""
    delay = wlk.spec.delay_of(arguments["policy"])
    if delay is None or not math.isfinite(delay):
        return
    stimulus = wlk.speech(10, seed=21, gap=(0.3, 0.9), tail=delay + 1.0)
    with suppress(OptionError):  # not every model has every policy of its backend
        driver = wlk.stream(**arguments)
        driver.feed(stimulus.audio)
        driver.drain()
        shown = words_of((*driver.tokens, *driver.processor.get_buffer().tokens))
        driver.finish()
        words = words_of(driver.tokens)
        assert len(shown) >= len(words) / 2, (
            f"with {arguments}, {len(shown)} of {len(words)} words were committed or shown "
            f"{delay:g} s after the last one"
        )


def _digit_words(number: int) -> str:
    """Return about OWN_WORDS digits as words, which repeat those of *number*."""
    digits = str(number) * (OWN_WORDS // 3)
    return " ".join(DIGIT_WORDS[int(digit)].strip() for digit in digits)


def _utterances(wlk: BackendUnderTest) -> Iterator[NDArray[np.float32]]:
    """Yield short speech without end, each another one, because answers may be kept by audio."""
    wlk.recipes.append("two words, others each time")
    return (wlk.speech_source.speech(2, seed=seed).audio for seed in count(200))


def _step(stream: OnlineProcessor, audio: NDArray[np.float32]) -> None:
    stream.insert_audio_chunk(audio)
    while stream.has_backlog:
        stream.process_iter()


def _check_memory_of(acts: Sequence[Callable[[], None]]) -> None:
    """Assert that none of the calls leaves more than LEFT bytes allocated each time."""

    def measured(act: Callable[[], None]) -> Iterator[None]:
        act()
        yield

    for act in acts:
        rise = _rise(partial(measured, act), first=4, span=4, allowed=LEFT)
        assert rise <= LEFT, (
            f"{act.__name__.replace('_', ' ')} left {rise} bytes allocated each time, {LEFT} "
            "allowed: a list or a cache of the stream or the backend grows without a bound, or "
            "its bound is larger than that"
        )


def _rise(act: Callable[[], Iterator[None]], *, first: int, span: int, allowed: int) -> int:
    """
    Return by how many bytes the memory rises with each call of *act*, which yields to be measured.

    Compares the smallest value of the last *span* calls with that of the *span* calls before,
    because a sound window or cache may grow and shrink.  The *first* calls do not count.  If the
    rise is above *allowed*, a cache may be filling: up to FILLING times as many calls follow, until
    it is not.
    """
    low: list[int] = []  # of each call
    rise = 0
    with memory_traced() as in_use:
        while len(low) < FILLING * (first + 2 * span):
            low.append(min([in_use() for _ in act()]))
            if len(low) >= first + 2 * span:
                rise = round((min(low[-span:]) - min(low[-2 * span : -span])) / span)
                if rise <= allowed:
                    break
    return rise


def _loops(wlk: BackendUnderTest) -> tuple[Loop, ...]:
    # Words that other models invent in noise cost work, which would hide its growth.
    return ("pauses", "speech", "noise") if wlk.is_coded else ("pauses", "speech")


def _check_growth(
    wlk: BackendUnderTest,
    name: str,
    values: list[int],
    *,
    total: Callable[[list[int]], int],
    kind: Loop,
    slack: int = 0,
) -> None:
    """
    Assert that the *total* of the last minute of *values*, one per round, is not above minute 2.

    Without pauses, rounds cut their buffers at other places, so the largest of minutes 2 to 4
    stands for minute 2 if a round is a minute.  *slack* is added for small numbers.
    """
    seconds = round_seconds(wlk)
    size = max(1, round(MINUTE / seconds))  # rounds of a minute
    if kind == "pauses":
        early, last = max(values[size : 2 * size]), values[-1]
    else:
        starts = range(size, size + (3 if size == 1 else 1))
        early = max(total(values[start : start + size]) for start in starts)
        last = total(values[-size:])
    assert last <= (GROWTH if kind == "pauses" else UNEVEN) * early + slack, (
        f"{name}: {early} in minute 2, {last} at the end of {len(values)} rounds of {seconds:g} s "
        f"of {'noise' if kind == 'noise' else 'speech'}"
    )


def _check_low(wlk: BackendUnderTest, values: list[int]) -> None:
    """Assert that the smallest state of the later rounds is not above that of the earlier ones."""
    seconds = round_seconds(wlk)
    size = max(1, round(MINUTE / seconds))  # rounds of minute 1, which fills buffers
    half = (size + len(values)) // 2
    early, late = min(values[size:half]), min(values[half:])
    assert late <= GROWTH * early, (
        f"the smallest state_bytes is {early} in the first half of {len(values)} rounds of "
        f"{seconds:g} s of speech and a pause, and {late} in the second half; {GROWTH:g} x allowed"
    )

"""Rules LIFE: from a new stream to a closed backend."""

from __future__ import annotations

from contextlib import suppress
import gc
from itertools import product
from pathlib import Path
import tempfile
import threading
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np

from wlk_conformance.calls import NO_WAIT
from wlk_conformance.compare import (
    EXPLAINED,
    align,
    check_clock,
    check_same,
    check_times,
    check_words,
)
from wlk_conformance.engine_faults import EngineFaults
from wlk_conformance.rules import NotApplicable, rule
from wlk_conformance.side_effects import memory_traced, open_files, remaining_threads
from wlk_conformance.stalls import timed
from wlk_conformance.stimuli import CodedSpeech, white_noise
from wlk_conformance.suite.rounds import rounds
from wlk_conformance.suite.scenes import (
    LOUD,
    begin_during,
    check_alone,
    check_around,
    check_raises,
    check_spoken,
    counted,
    exclusive_calls,
    feed_and_find_cut,
    flushes_of,
    rising,
    text_of,
    texts_of_calls,
    unchanged,
    unless_answers_vary,
    variant_streams,
    word_error_rate,
)
from wlk_conformance.testing import CELL_SECONDS, CodedToken, StreamDriver
from wlk_core import SAMPLE_RATE
from wlk_core.errors import BackendError, OptionError, StreamClosed

if TYPE_CHECKING:
    from collections.abc import Callable

    from wlk_conformance.backend_under_test import BackendUnderTest
    from wlk_conformance.stimuli import Stimulus
    from wlk_core import OnlineProcessor

LEFT_OF_AUDIO = 0.25  # share of the bytes of a stream's audio that may stay in use
FEW_WORDS = 6  # of a round whose median can be off by more than chance
SHIFT = 0.1  # seconds: that median, unless the spec declares a larger bias
GRID_SECONDS = 12.0  # at which a tick ends, whether it has 0.5, 1, 1.5, 2, 3 or 4 s
REST_SECONDS = 0.1
BACKLOG = 30.0  # seconds that one call drains
WARMUP_CALLS = 3  # of a warmup that fail, each in turn
LOST = 0.03  # share of an engine's words that may be lost if hypotheses have to agree


class LifeRules:
    """Rules of the life cycle."""

    @rule("LIFE-01", "a prefix or a language token is decoded as text")
    def test_a_fresh_stream_commits_nothing(self, wlk: BackendUnderTest) -> None:
        """A new processor commits nothing and shows nothing before audio is inserted."""
        driver = wlk.stream()
        for _ in range(2):
            driver.process()  # the monitor of every stream checks what these return
            driver.process(is_last=True)
            driver.start_silence()
            assert not driver.processor.get_buffer().tokens
            driver.end_silence(5.0)

    @rule(
        "LIFE-02",
        "audio left over that is shorter than a tick or a chunk is never decoded",
        "the model is not padded to its smallest input",
        kinds="G,O",
    )
    def test_finish_flushes_everything(self, wlk: BackendUnderTest) -> None:
        """`finish()` flushes everything, audio of 0.1 s included."""
        stimulus = wlk.log_stimulus(white_noise(0.1))
        driver = wlk.stream(stimulus.audio)
        driver.finish()
        check_clock(driver.processed_up_to, stimulus.seconds)
        for tail in (0.0, 0.05):
            stimulus = wlk.speech(4, seed=3, tail=tail)
            driver = wlk.stream(stimulus.audio)
            driver.finish()
            check_clock(driver.processed_up_to, stimulus.seconds)
            wlk.require_tokens(driver.tokens, stimulus)
            check_spoken(wlk, stimulus, driver.tokens, "by finish alone")
        if isinstance(wlk.speech_source, CodedSpeech):  # no spoken word is that short
            stimulus = wlk.log_stimulus(wlk.speech_source.script([CodedToken(5, 0, 1)]))
            check_words(stimulus.words, wlk.run(stimulus).tokens, what="one cell and finish")

    @rule("LIFE-02", "a flush drops unconfirmed words", kinds="F", since="2.0")
    def test_the_engines_words_are_committed(self, wlk: BackendUnderTest) -> None:
        """The words that the engine returned last, for all of the audio, are committed."""
        returned = lost = 0
        for seed in (7, 26, 27, 28):
            stimulus = wlk.speech(12, seed=seed)
            driver = wlk.stream(stimulus.audio)
            with wlk.faults.changing(unchanged) as answers:
                driver.finish()
            last = text_of(answers[-1]).split() if answers else []
            returned += len(last)
            lost += max(0, len(last) - len(driver.text.split()))
        if not returned:
            raise NotApplicable("its engine returns no words of its own")
        assert lost <= LOST * returned, (
            f"{lost} of {returned} words of the engine were not committed"
        )

    @rule(
        "LIFE-02",
        "audio after the last step is too short for an engine call",
        kinds="F",
        since="2.0",
    )
    def test_a_flush_decodes_the_rest_of_the_audio(self, wlk: BackendUnderTest) -> None:
        """A flush passes speech that no step has decoded to the engine, if it has 0.1 s or more."""
        stimulus = wlk.speech(30, seed=7, gap=(0.1, 0.2))
        audio, rest = stimulus.cut(GRID_SECONDS)
        flushes: list[tuple[dict[str, Any], str, Callable[[StreamDriver], object]]]
        flushes = [({}, *named) for named in flushes_of(wlk).items()]
        flushes += [(policy, "finish", StreamDriver.finish) for policy in wlk.policy_variants]
        for arguments, name, flush in flushes:
            try:
                driver = wlk.stream(**arguments)
            except OptionError:  # not every model has every policy of its backend
                continue
            driver.feed(audio)
            driver.drain()
            driver.insert(rest[: round(REST_SECONDS * SAMPLE_RATE)])
            before = wlk.faults.count
            flush(driver)
            assert wlk.faults.count > before, (
                f"{name} of a stream with {arguments or 'the default policy'} made no engine call "
                f"for the last {REST_SECONDS:g} s of speech, which no step had decoded"
            )

    @rule("LIFE-03", "finish pads and decodes again each time")
    def test_a_second_finish_does_nothing(self, wlk: BackendUnderTest) -> None:
        """A second `finish()` commits nothing and runs no model."""
        stimulus = wlk.speech(4, seed=3)
        driver = wlk.run(stimulus)
        wlk.require_tokens(driver.tokens, stimulus)
        first = driver.records[-1].emission
        before = driver.processor.stats
        for _ in range(3):  # the monitor of every stream checks that it does nothing
            again = driver.finish()
            assert again.processed_up_to == first.processed_up_to
            assert again.stable_up_to == first.stable_up_to
        assert driver.processor.stats == before, "the second finish did work"

    @rule(
        "LIFE-04",
        "only finish itself reads the flag it sets",
        "a chunk without samples is skipped before the flag is read",
    )
    def test_a_finished_stream_accepts_nothing(self, wlk: BackendUnderTest) -> None:
        """After finish, insert, process_iter, silence and speaker calls raise StreamClosed."""
        stimulus = wlk.speech(3, seed=2)
        for audio, how in ((None, " of a stream finished without audio"), (stimulus.audio, "")):
            driver = wlk.stream(audio)
            driver.finish()
            for name, call in exclusive_calls(wlk, driver, stimulus.audio).items():
                check_raises(StreamClosed, f"{name}{how}", call)

    @rule("LIFE-05", "padding is decoded although no audio was inserted")
    def test_finish_without_audio_runs_nothing(self, wlk: BackendUnderTest) -> None:
        """`finish()` without audio commits nothing and runs no model."""
        for seconds in (None, 5.0):
            driver = wlk.stream()
            if seconds is not None:  # after a reset of a stream that had audio
                driver.feed(wlk.speech(3, seed=2).audio)
                driver.reset()
                driver.process()
            before = driver.processor.stats
            if seconds is not None:
                driver.end_silence(seconds)
            driver.finish()  # the monitor of every stream checks that it commits nothing
            assert counted(driver.processor.stats) == counted(before), "the model ran"

    @rule(
        "LIFE-06",
        "the clock, the speaker or the prompt survive a reset",
        "a gain or a threshold follows the loudness of the audio before",
    )
    def test_reset_gives_a_new_stream(self, wlk: BackendUnderTest) -> None:
        """`reset()` gives the state of a new processor."""
        before = wlk.speech(6, seed=5)
        if not wlk.is_coded:
            before = wlk.log_stimulus(before.scaled(LOUD))
        stimulus = rising(wlk, 4, seed=3)
        expected = wlk.run(stimulus)
        for is_finished in (False, True):
            driver = wlk.stream()
            if wlk.has("speaker-turns"):
                driver.new_speaker("before")
            driver.end_silence(7.0)
            if wlk.has("speaker-turns"):
                driver.new_speaker("later")
            driver.feed(before.audio, chunk_seconds=0.7)
            if is_finished:
                driver.finish()
            driver.reset()
            stats = driver.processor.stats
            assert stats.audio_seconds == 0, f"{stats.audio_seconds} s of audio after reset"
            assert not driver.processor.get_buffer().tokens, "the hypothesis survived the reset"
            driver.feed(stimulus.audio)
            driver.end()
            check_same(expected.tokens, driver.tokens, what="after reset")
            assert driver.tokens == expected.tokens, "speaker, language or probability differs"
            assert driver.processed_up_to == expected.processed_up_to
            usual, work = (counted(each.processor.stats) for each in (expected, driver))
            # What is known from a cache of answers costs a new stream less, too.
            assert work == usual or counted(wlk.run(stimulus).processor.stats) != usual, (
                f"a reset stream has the counters {work}, a new one {usual}"
            )

    @rule("LIFE-06", "an option is taken out of what the next recogniser is made from", since="2.0")
    def test_reset_keeps_policy_and_options(self, wlk: BackendUnderTest) -> None:
        """A stream that was opened with another policy or option keeps it over a reset."""
        if not wlk.variants:
            raise NotApplicable("there are no other policies and options to try", "not declared")
        for name, driver, stimulus in variant_streams(wlk, 8, seed=3, tail=0.0):
            runs = []
            for _ in range(2):
                driver.feed(stimulus.audio)
                driver.end()
                work = counted(driver.processor.stats)
                runs.append((driver.tokens, (texts_of_calls(driver), work)))
                driver.reset()
            (new, usually), (tokens, again) = runs
            with unless_answers_vary(wlk, stimulus):
                check_same(new, tokens, what=f"after a reset, with {name}")
            if again != usually:  # an engine that answers in its own time may work differently
                run = wlk.run(stimulus, **wlk.variants[name])
                usual = texts_of_calls(run), counted(run.processor.stats)
                assert usual != usually, f"with {name}: {usually} before a reset, {again} after it"

    @rule("LIFE-07", "is_last is never read", "it makes a limited number of steps")
    def test_is_last_drains_without_closing(self, wlk: BackendUnderTest) -> None:
        """`process_iter(is_last=True)` commits all, as finish does, and leaves the stream open."""
        stimulus = wlk.speech(6, seed=5, tail=0.0)
        driver = wlk.stream(stimulus.audio)
        driver.process(is_last=True)
        check_clock(driver.processed_up_to, stimulus.seconds)
        finished = wlk.stream(stimulus.audio)
        finished.finish()
        check_same(finished.tokens, driver.tokens, what="is_last against finish")
        wlk.require_tokens(driver.tokens, stimulus)
        for arguments in wlk.policy_variants:
            with suppress(OptionError):  # not every model has every policy of its backend
                drained, ended = (wlk.stream(stimulus.audio, **arguments) for _ in range(2))
                drained.process(is_last=True)
                ended.finish()
                with unless_answers_vary(wlk, stimulus):
                    check_same(ended.tokens, drained.tokens, what=f"is_last, with {arguments}")
        before = len(driver.tokens)
        driver.feed(stimulus.audio)
        driver.finish()
        check_clock(driver.processed_up_to, 2 * stimulus.seconds)
        assert len(driver.tokens) > before, "no text came after process_iter(is_last=True)"
        backlog = wlk.log_stimulus(white_noise(BACKLOG))
        driver = wlk.stream(backlog.audio)
        driver.process(is_last=True)
        check_clock(driver.processed_up_to, backlog.seconds)

    @rule("LIFE-08", "an end-of-text token resets the whole stream, audio and clock", kinds="O")
    def test_a_limit_inside_the_model_keeps_the_stream(self, wlk: BackendUnderTest) -> None:
        """
        Reaching a limit inside the model keeps clock, pending audio, spacing and speaker.

        The limit may be an end-of-text token, a repetition guard or a full context.
        """
        if not isinstance(wlk.speech_source, CodedSpeech):
            raise NotApplicable("its engine cannot be made to end its text")
        for digits in (range(1, 11), (7,), (7, 3, 9)):
            ids = [digits[index % len(digits)] for index in range(280)]
            script = [CodedToken(id_, 4 * index, 3) for index, id_ in enumerate(ids)]
            stimulus = wlk.log_stimulus(wlk.speech_source.script(script))
            driver = wlk.stream()
            if wlk.has("speaker-turns"):
                driver.new_speaker("anna")
            driver.feed(stimulus.audio)
            driver.finish()
            check_words(
                stimulus.words, driver.tokens, what=f"{stimulus.seconds:.0f} s without a pause"
            )
            check_times(stimulus.words, driver.tokens, tolerance=CELL_SECONDS)
            speakers = {token.speaker for token in driver.tokens}
            assert speakers == ({"anna"} if wlk.has("speaker-turns") else {None}), str(speakers)
            check_clock(driver.processed_up_to, stimulus.seconds)

    @rule(
        "LIFE-08",
        "the clock loses or gains frames where the model's context begins anew",
        requires="word-times",
        since="2.0",
    )
    def test_a_long_utterance_keeps_the_clock(self, wlk: BackendUnderTest) -> None:
        """After minutes without a pause, words start when the same ones do after a pause."""
        paused, spoken = rounds(wlk, "pauses"), rounds(wlk, "speech")
        wlk.require_tokens(paused.tokens)
        usual = paused.words()[-1]
        limit = max(wlk.bounds.get("word_start_bias", 0.0), SHIFT)
        judged = 0
        for number, words in enumerate(spoken.words()):
            # By their texts, because a word may be nearer to its neighbour than to itself.
            same = align([word for word, _ in usual], [word for word, _ in words])
            if len(same) < FEW_WORDS:
                continue
            judged += 1
            off = np.array([words[at][1] - usual[of][1] for of, at in same])
            offset = float(np.median(off))
            # A model may also return other words, whose starts are not off by the same time.
            is_shift = float(np.median(np.abs(off - offset))) <= EXPLAINED * abs(offset)
            assert abs(offset) <= limit or not is_shift, (
                f"after {spoken.begins[number]:.0f} s without a pause, words start "
                f"{abs(offset):.2f} s too {'late' if offset > 0 else 'early'}, compared with the "
                f"same words after a pause; {limit:.2f} s allowed"
            )
        if not judged:
            raise NotApplicable(f"fewer than {FEW_WORDS} words were recognised in each round")

    @rule("LIFE-08", "pending audio, or the speaker of later text, is dropped", kinds="F")
    def test_an_answer_cut_short_keeps_the_stream(self, wlk: BackendUnderTest) -> None:
        """If an answer ends early, only words that it would have contained are lost."""
        faults, stimulus = wlk.faults, wlk.speech(24, seed=19)
        before = faults.count
        expected = wlk.run(stimulus).tokens
        wlk.require_tokens(expected, stimulus)
        calls = faults.count - before
        for call, share in ((calls // 4, 0.0), (calls // 2, 0.5), (calls * 3 // 4, 0.0)):
            driver = wlk.stream()
            speaker = "anna" if wlk.has("speaker-turns") else None
            if speaker is not None:
                driver.new_speaker(speaker)
            with faults.cutting({max(1, call): share}):
                lost = feed_and_find_cut(wlk, driver, stimulus)
            what = f"with the answer of engine call {call} cut to {share:.0%}"
            errors = 0.0 if wlk.is_coded else word_error_rate(wlk)
            check_around(expected, driver.tokens, lost, what=what, word_errors=errors)
            assert {token.speaker for token in driver.tokens} == {speaker}, what
            check_clock(driver.processed_up_to, stimulus.seconds)

    @rule(
        "LIFE-09",
        "warmup runs through a stream in use, or leaves its audio in a new one",
        "warmup measures the machine and changes the defaults of later streams",
        "it writes into the buffer of an engine call that runs",
    )
    def test_warmup_leaves_no_trace(self, wlk: BackendUnderTest) -> None:
        """`Backend.warmup()` leaves no trace, not even in a running step, and raises on failure."""
        stimulus = wlk.speech(4, seed=3)
        driver = wlk.run(stimulus, before=lambda *_: wlk.backend.warmup())
        check_alone(wlk, stimulus, driver, "with a warmup before every chunk")
        other = wlk.another_backend()
        other.warmup()
        driver = wlk.run(stimulus, of=other)
        check_alone(wlk, stimulus, driver, "the first stream after a warmup")

        def without() -> dict[str, int]:
            """Return the work of a second stream, because the first may make what all share."""
            unwarmed = wlk.another_backend()
            wlk.run(wlk.speech(2, seed=2), of=unwarmed)
            return counted(wlk.run(stimulus, of=unwarmed).processor.stats)

        warm, usual = counted(driver.processor.stats), without()
        assert warm == usual or without() != usual, (
            f"the first stream after a warmup has the counters {warm}, without one {usual}"
        )
        if wlk.spec.thread_affinity == "same-thread":
            return
        stepping = wlk.stream(stimulus.audio)
        begin_during(wlk, stepping.process, wlk.backend.warmup, what="warmup()")
        stepping.end()
        check_alone(wlk, stimulus, stepping, "with a warmup during a step", tolerance=0.1)
        # Later calls may decode again what this one has lost, but none follows that of a flush.
        flushing = wlk.stream()
        flushing.feed(stimulus.audio)
        begin_during(wlk, flushing.finish, wlk.backend.warmup, what="warmup()")
        check_alone(wlk, stimulus, flushing, "with a warmup during a flush", tolerance=0.1)

    @rule("LIFE-09", "warmup logs its exception and goes on", kinds="F")
    def test_a_warmup_that_fails_raises(self, wlk: BackendUnderTest) -> None:
        """A warmup whose engine call fails raises."""
        other = wlk.another_backend()
        faults = EngineFaults.of_backend(other)
        if faults is None:
            raise NotApplicable("its engine cannot be made to fail")
        other.warmup()
        if not faults.count:
            raise NotApplicable("warmup calls no engine")
        calls = range(1, min(faults.count, WARMUP_CALLS) + 1)
        for is_after, number in product((False, True), calls):
            other = wlk.another_backend()  # because one that is warm may do nothing
            faults = EngineFaults.of_backend(other)
            assert faults is not None
            with faults.failing((number,), after=is_after):
                try:
                    other.warmup()
                except Exception:  # noqa: BLE001, S112 -- any will do, if it is not swallowed
                    continue
                assert not faults.raised, f"engine call {number} failed, but warmup returned"
        other = wlk.another_backend()
        faults = EngineFaults.of_backend(other)
        assert faults is not None
        with faults.failing(range(1, 4 * WARMUP_CALLS)):
            for attempt in ("first", "second", "third"):
                check_raises(Exception, f"the {attempt} warmup of a failing engine", other.warmup)

    @rule(
        "LIFE-10",
        "a thread waits on a queue that is never filled again",
        "what load started or opened has no owner that closes it",
        "a reset makes what close would have ended anew",
        "temporary files are removed where a stream finishes, and not where it closes",
    )
    def test_close_releases_everything(self, wlk: BackendUnderTest) -> None:
        """
        `close()` releases threads, hooks, caches and queued audio within 5 s, finished or not.

        A closed backend refuses new processors, and a closed stream every call but a read.
        """
        stimulus = wlk.speech(4, seed=3)
        wlk.run(stimulus)  # starts the threads that all backends share
        first, files = set(threading.enumerate()), open_files()
        other = wlk.another_backend()
        earlier = wlk.run(stimulus, of=other)  # starts the threads that all streams share
        threads = set(threading.enumerate())
        for is_finished in (False, True):
            with tempfile.TemporaryDirectory() as folder, patch.object(tempfile, "tempdir", folder):
                driver = wlk.stream(of=other)
                idle = driver.processor.stats.state_bytes
                driver.feed(stimulus.audio)
                driver.reset()
                driver.feed(stimulus.audio)
                if is_finished:
                    driver.finish()
                driver.processor.close()
                driver.processor.close()
                left = [path.name for path in Path(folder).iterdir()]
            _check_threads_end(threads, "after close()")
            assert not left, f"a closed stream left {left} in the folder for temporary files"
            held = driver.processor.stats.state_bytes
            assert held is None or held <= (idle or 0), f"a closed stream holds {held} bytes"
            calls = {
                **exclusive_calls(wlk, driver, stimulus.audio),
                "finish": driver.finish,
                "reset": driver.processor.reset,
            }
            for name, call in calls.items():
                check_raises(StreamClosed, f"{name} after close()", call)
        earlier.processor.close()
        with timed(NO_WAIT) as closing:
            other.close()
            other.close()
        assert closing.is_in_time, f"close() of the backend took more than {NO_WAIT:g} s"
        check_raises(StreamClosed, "create_processor after close()", other.create_processor)
        _check_threads_end(first, "after close() of the backend")
        _check_files_closed(files, "after close() of the backend")

    @rule(
        "LIFE-10",
        "what ends a thread, a timer or a file stands behind the call that raised",
        kinds="F",
        since="2.0",
    )
    def test_close_after_a_failure_releases_everything(self, wlk: BackendUnderTest) -> None:
        """So does the `close()` of a stream whose engine failed, once or until it was broken."""
        stimulus, before = wlk.speech(4, seed=3), wlk.faults.raised
        wlk.run(stimulus)  # creates what is created on first use
        idle = wlk.stream().processor.stats.state_bytes
        threads, files = set(threading.enumerate()), open_files()
        for is_after, (name, flush) in product((False, True), flushes_of(wlk).items()):
            for failures in (range(1, 2), range(1, 9)):
                driver = wlk.stream(stimulus.audio)
                with wlk.faults.failing(failures, after=is_after):
                    for _ in failures:
                        with suppress(BackendError):
                            flush(driver)
                            break
                how = f"after {len(failures)} failures in {name}"
                _check_closed(driver, threads, files, idle=idle, how=how)
        if wlk.faults.raised == before:
            raise NotApplicable("no engine call could be made to fail")

    @rule(
        "LIFE-10",
        "the last error is kept, and its traceback keeps the audio of the call and the stream",
        kinds="F",
        since="2.0",
    )
    def test_close_after_a_failure_leaves_no_audio(self, wlk: BackendUnderTest) -> None:
        """`close()` after a failed call releases the audio, as measured by tracemalloc."""
        stimulus, raised = wlk.speech(8, seed=7), wlk.faults.raised
        brief = wlk.log_stimulus(white_noise(0.1))
        audio_bytes = stimulus.audio.nbytes

        def fail_and_close(stimulus: Stimulus, call: str, failures: int) -> None:
            """Open a stream, fail *call* that many times, and close it."""
            stream = wlk.backend.create_processor(**wlk.stream_options)
            stream.insert_audio_chunk(stimulus.audio)
            with wlk.faults.failing(range(1, failures + 1)):
                for _ in range(max(1, failures)):
                    with suppress(BackendError):
                        getattr(stream, call)()
                        break
            stream.close()
            closed[:] = [stream]  # which its caller may keep

        closed: list[OnlineProcessor] = []
        with memory_traced() as in_use:
            fail_and_close(brief, "finish", 1)  # imports what a failure imports
            fail_and_close(stimulus, "finish", 0)  # without a failure: fills a cache of results
            before = in_use()
            for call, failures in product(("process_iter", "finish"), (1, 8)):
                fail_and_close(stimulus, call, failures)
                more = in_use() - before
                assert more <= LEFT_OF_AUDIO * audio_bytes, (
                    f"a stream with {audio_bytes} bytes of audio that was closed after {failures} "
                    f"failures in {call} leaves {more} bytes more than one that did not fail"
                )
        if wlk.faults.raised == raised:
            raise NotApplicable("no engine call could be made to fail")

    @rule("LIFE-10", "close releases the model's state, but not the queue before it", since="2.0")
    def test_close_releases_queued_audio(self, wlk: BackendUnderTest) -> None:
        """Audio that no step has taken yet is released too, and `has_backlog` is False then."""
        stimulus = wlk.log_stimulus(white_noise(30.0))
        driver = wlk.stream()
        idle = driver.processor.stats.state_bytes
        for chunk in stimulus.chunks(1.0):
            driver.insert(chunk)
        driver.processor.close()
        assert not driver.processor.has_backlog, "has_backlog is True after close()"
        held = driver.processor.stats.state_bytes
        if held is None:
            raise NotApplicable("state_bytes is not counted")
        assert held <= (idle or 0), (
            f"a stream closed with {stimulus.seconds:g} s of queued audio holds {held} bytes"
        )


def _check_closed(
    driver: StreamDriver, threads: set[threading.Thread], files: int, *, idle: int | None, how: str
) -> None:
    """Close a stream, and assert that its threads, files and state are gone within NO_WAIT."""
    driver.processor.close()
    _check_threads_end(threads, f"after close(), {how}")
    _check_files_closed(files, f"after close(), {how}")
    held = driver.processor.stats.state_bytes
    assert held is None or held <= (idle or 0), f"{how}, a closed stream holds {held} bytes"


def _check_files_closed(before: int, when: str) -> None:
    """Assert that no more files are open than *before*."""
    if open_files() > before:
        gc.collect()
    assert (more := open_files() - before) <= 0, f"{more} files are open {when}"


def _check_threads_end(before: set[threading.Thread], when: str) -> None:
    """Assert that the threads that are new since *before* end within NO_WAIT; a timer is one."""
    names = remaining_threads(before, grace=NO_WAIT)
    assert not names, f"threads are alive {when}: {names}"

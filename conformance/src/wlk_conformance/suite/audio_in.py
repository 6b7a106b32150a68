"""Rules IN: the audio that a stream accepts, and how its clock counts it."""

from __future__ import annotations

from functools import partial
from itertools import chain
import math
from statistics import median
import tracemalloc
from typing import TYPE_CHECKING, Any

import numpy as np

from wlk_conformance.compare import (
    check_clock,
    check_same,
    check_texts,
    word_errors,
    words_of,
)
from wlk_conformance.rules import NotApplicable, rule
from wlk_conformance.side_effects import memory_traced
from wlk_conformance.stalls import timed
from wlk_conformance.stimuli import bad_audio, white_noise
from wlk_conformance.suite.scenes import (
    BRIEF,
    GROSS,
    REPEATS,
    check_alone,
    check_raises,
    check_spoken,
    counted,
    insert_in_pieces,
    returns_promptly,
    rising,
    unless_answers_vary,
    variant_streams,
    while_a_step_runs,
    word_error_rate,
)
from wlk_conformance.testing import partition, silence
from wlk_conformance.testing.driver import MAX_DRAIN_CALLS
from wlk_core import EPS, SAMPLE_RATE
from wlk_core.errors import AudioFormatError, ClockError

if TYPE_CHECKING:
    from wlk_conformance.backend_under_test import BackendUnderTest
    from wlk_conformance.stimuli import Stimulus
    from wlk_conformance.testing import StreamDriver

BACKLOG = 300.0  # seconds
COPIED = 1_000_000  # bytes that an insert may allocate, because buffers grow now and then
SHORT = 0.005  # seconds; a chunk shorter than a mel frame
INSERTS = 50  # while a step runs, so that a short wait in each adds up
GAP = 3.0  # seconds
LONG_SECONDS = 35  # of a chunk; longer than the windows of models
LONG_QUIET = 12.0  # seconds, after which a gate may have fallen asleep
LENGTHS = (0, 1, 159, 160, 1279, 1280, 1281)


class AudioRules:
    """Rules of inserting audio."""

    @rule("IN-01", "features are computed for less than a frame, or an empty list is concatenated")
    def test_audio_of_any_length_is_accepted(self, wlk: BackendUnderTest) -> None:
        """
        A stream accepts 1-D float32 at 16 kHz of any length >= 0.

        Lengths of 0, 1, 159, 160, 1279, 1280, 1281 and 320 000 samples are tested.  Speech in
        chunks of 5 ms has the words that it has in longer ones.
        """
        driver = wlk.stream()
        for length in LENGTHS:
            driver.insert(wlk.log_stimulus(white_noise(1.0)).audio[:length])
            driver.process()
        strided = wlk.log_stimulus(white_noise(1.0)).audio[::2]
        driver.insert(strided)
        driver.finish()
        check_clock(driver.processed_up_to, driver.clock)
        for length in (*LENGTHS, 320_000):
            driver = wlk.stream(wlk.log_stimulus(white_noise(20.0)).audio[:length])
            driver.finish()
            check_clock(driver.processed_up_to, length / SAMPLE_RATE)
        stimulus = wlk.speech(2, seed=2)
        driver = wlk.stream()
        for chunk in stimulus.chunks(SHORT):
            driver.insert(chunk)
        driver.end()
        check_alone(wlk, stimulus, driver, "in chunks of 5 ms", tolerance=0.1)

    @rule(
        "IN-02",
        "numpy converts any array, or the clock moves before the audio is checked",
        "a chunk without samples is skipped before it is checked",
        "the gap before a chunk is put on the clock before the chunk is checked",
    )
    def test_other_audio_is_refused(self, wlk: BackendUnderTest) -> None:
        """
        Another rank or dtype, NaN or infinity raises AudioFormatError and changes nothing.

        So does a sample beyond 16, which cannot be sound: integers that were cast and not scaled
        have such samples.  int16 is accepted only through the core's converter.
        """
        stimulus = wlk.speech(4, seed=3)

        def refuse(driver: StreamDriver, _chunk: object) -> None:
            insert = driver.processor.insert_audio_chunk
            long = bad_audio(LONG_SECONDS * SAMPLE_RATE)  # which a stream may take in pieces
            for name, bad in chain(bad_audio().items(), long.items()):
                before = driver.processor.stats.audio_seconds
                check_raises(AudioFormatError, name, insert, bad)
                left = driver.processor.stats.audio_seconds - before
                assert not left, f"{name} raised, but {left:.3f} s of it were inserted"
                if np.ndim(bad) == 1:  # the gap before it is refused with the chunk
                    late = driver.clock + LONG_SECONDS + GAP
                    check_raises(AudioFormatError, f"{name}, after a gap,", insert, bad, late)

        driver = wlk.run(stimulus, before=refuse)
        check_alone(wlk, stimulus, driver, "with refused chunks between the good ones")
        check_clock(driver.processed_up_to, stimulus.seconds)

    @rule(
        "IN-03",
        "the clock is set to the caller's time instead of being checked against it",
        "an overlap is trimmed off silently, or its samples are kept twice",
        "a chunk without samples is skipped before its end time is read",
    )
    def test_a_shaky_clock_is_absorbed(self, wlk: BackendUnderTest) -> None:
        """
        The sample count is the clock; `audio_stream_end_time` is checked against it.

        Differences up to EPS are absorbed and never accumulate; a larger gap is a silence of that
        length, and a larger overlap raises ClockError and changes nothing, as does a time that is
        not finite.  None means "directly after A".
        """
        for shake in ((0.015, -0.015), (0.019,), (-0.019,)):
            stimulus = wlk.log_stimulus(white_noise(4.0))
            wlk.recipes.append(f"0.1 s chunks with end times off by {shake} in turn")
            driver = wlk.stream()
            for index, chunk in enumerate(stimulus.chunks(0.1)):
                end_time = driver.clock + len(chunk) / SAMPLE_RATE + shake[index % len(shake)]
                driver.insert(chunk, end_time)
            driver.finish()
            check_clock(driver.processed_up_to, stimulus.seconds)
        stimulus = wlk.speech(3, seed=4)

        def overlap(driver: StreamDriver, chunk: Any) -> None:
            for seconds in (EPS + 0.01, 1.0):
                end_time = driver.clock + len(chunk) / SAMPLE_RATE - seconds
                insert = driver.processor.insert_audio_chunk
                check_raises(ClockError, f"an overlap of {seconds:g} s", insert, chunk, end_time)
            for end_time in (math.nan, math.inf, -math.inf):
                check_raises(ClockError, f"an end time of {end_time}", insert, chunk, end_time)

        driver = wlk.run(stimulus, before=overlap)
        check_alone(wlk, stimulus, driver, "with refused overlaps between the chunks")
        check_clock(driver.processed_up_to, stimulus.seconds)

    @rule(
        "IN-03",
        "the gap is dropped, or filled with zeros that the model decodes",
        "gaps of a few packets count as jitter, and long ones as a clock that was set",
    )
    def test_a_gap_is_a_silence(self, wlk: BackendUnderTest) -> None:
        """
        A gap beyond EPS acts like start_silence and end_silence of that length.

        A chunk without samples may announce it.
        """
        stimulus = wlk.speech(3, seed=4)
        explicit = {gap: wlk.play(stimulus.audio, gap, stimulus.audio) for gap in (7.5, 90.0)}
        for gap, is_announced in ((7.5, False), (7.5, True), (90.0, False)):
            wlk.recipes.append(f"twice, with a gap of {gap:g} s by audio_stream_end_time")
            driver = wlk.stream()
            driver.feed(stimulus.audio)
            if is_announced:
                driver.insert(stimulus.audio[:0], stimulus.seconds + gap)
            end_time = None if is_announced else 2 * stimulus.seconds + gap
            driver.insert(stimulus.audio, end_time)
            driver.finish()
            check_clock(driver.processed_up_to, 2 * stimulus.seconds + gap)
            how = ", announced by a chunk without samples," if is_announced else ""
            what = f"a gap{how} against start_silence and end_silence"
            check_same(explicit[gap].tokens, driver.tokens, what=what)
        for short in (EPS + 0.005, 2 * EPS):
            driver = wlk.stream(stimulus.audio)
            driver.insert(stimulus.audio, 2 * stimulus.seconds + short)
            driver.finish()
            check_clock(driver.processed_up_to, 2 * stimulus.seconds + short)

    @rule(
        "IN-04",
        "the caller's array is kept, or an insert waits or copies all audio so far",
        "chunks that are too short for a step are kept in a list, without a copy",
        "an array that the backend may not write is taken for one that nobody writes",
        "one lock guards the buffer and the engine call",
        "the audio is scaled or clipped in the caller's array",
    )
    def test_inserting_copies(self, wlk: BackendUnderTest) -> None:
        """
        Inserting copies the audio, never runs or waits for the model, and works from any thread.

        It is O(chunk) amortised, and may happen while a step runs.  Inserting ten seconds in chunks
        of 20 ms takes at most half of that time.
        """
        stimulus = wlk.speech(4, seed=3)
        driver = wlk.stream()
        for chunk in stimulus.chunks(1.0):
            before = counted(driver.processor.stats)
            driver.insert(chunk)
            assert counted(driver.processor.stats) == before, "inserting ran the model"
            driver.process()
        for seconds, is_read_only in ((1.0, False), (1.0, True), (BRIEF, False)):
            driver = wlk.stream()
            for chunk in stimulus.chunks(seconds):
                buffer = chunk.copy()
                inserted = buffer.view()
                inserted.flags.writeable = not is_read_only
                driver.insert(inserted)  # and nothing is read, which could make a copy
                buffer[:] = 0.5
            driver.finish()
            kind = "read-only chunks" if is_read_only else "chunks"
            what = f"with {kind} of {seconds:g} s that were overwritten after inserting"
            check_alone(wlk, stimulus, driver, what, tolerance=0.1)
        loud = wlk.log_stimulus(white_noise(0.1).scaled(2.0)).audio
        before_insert = loud.copy()
        wlk.stream(loud)
        assert np.array_equal(loud, before_insert), "inserting changed the caller's array"
        driver, stimulus = wlk.stream(), wlk.log_stimulus(white_noise(10.0))
        limit = stimulus.seconds / 2
        with timed(limit) as inserting:
            for chunk in stimulus.chunks(BRIEF):
                driver.insert(chunk)
        assert inserting.is_in_time, f"inserting 500 chunks took more than {limit:g} s"
        _check_insert_is_cheap(wlk)
        stimulus = wlk.speech(6, seed=5)
        first, rest = stimulus.cut(min(2.0, stimulus.seconds / 2))
        driver = wlk.stream(first)

        def insert_all() -> None:
            for index, chunk in enumerate(partition(rest, len(rest) / SAMPLE_RATE / INSERTS)):
                end_time = driver.clock + len(chunk) / SAMPLE_RATE
                driver.insert(chunk, end_time if index % 2 else None)
            driver.insert(rest[:0], driver.clock + 1.0)  # a gap at the end changes no word

        name = f"insert_audio_chunk, {INSERTS} times,"
        while_a_step_runs(wlk, driver, partial(returns_promptly, insert_all, name=name))
        driver.end()
        check_alone(wlk, stimulus, driver, "with audio inserted while a step ran")

    @rule("IN-05", "a full buffer is cut, or output tokens have a fixed limit", kinds="G,O,S")
    def test_a_backlog_loses_nothing(self, wlk: BackendUnderTest) -> None:
        """
        All inserted audio reaches the model before it leaves any buffer.

        That holds whatever the chunk size or backlog: one insert of a minute equals sixty of 1 s.
        """
        count = 40 if wlk.is_coded else 14 if wlk.is_recognisable else 6
        stimuli = [wlk.speech(count, seed=6, gap=(0.8, 1.6))]
        if "speech" in wlk.tiers:
            stimuli.append(wlk.speech(60, seed=13, gap=(0.1, 0.8)))  # also used by COM-05
        for stimulus in stimuli:
            expected = wlk.require_tokens(wlk.solo(stimulus), stimulus)
            check_spoken(wlk, stimulus, expected, "inserts of a second")
            # A minute is a chunk of COM-05 as well.
            length = max(60.0, stimulus.seconds)
            at_once = wlk.solo(stimulus, chunk_seconds=length)
            with unless_answers_vary(wlk, stimulus, chunks=(1.0, length)):
                check_same(expected, at_once, what="one insert against many", tolerance=0.1)
            unread = wlk.stream()
            for chunk in stimulus.chunks(1.0):
                unread.insert(chunk)
            unread.finish()
            check_alone(wlk, stimulus, unread, "many inserts and one finish", tolerance=0.1)
        unread = wlk.stream()
        insert_in_pieces(unread, stimuli[0].audio)
        unread.finish()
        what = f"inserts of {BRIEF:g} s and one finish"
        check_alone(wlk, stimuli[0], unread, what, tolerance=0.1)

    @rule(
        "IN-05",
        "a gate, or the state of the model, ignores speech after a long stretch of zeros",
        since="2.0",
    )
    def test_speech_after_a_long_quiet_is_decoded(self, wlk: BackendUnderTest) -> None:
        """
        Speech after twelve seconds of zeros has the words that it has alone, even if it is soft.

        A third of them may be missing, because earlier audio may change how words are decoded.
        """
        stimulus = rising(wlk, 3, seed=9)
        alone = words_of(wlk.require_tokens(wlk.solo(stimulus), stimulus))
        driver = wlk.stream()
        driver.feed(stimulus.audio)
        driver.feed(silence(LONG_QUIET), chunk_seconds=5.0)
        wlk.recipes.append(f"twice, with {LONG_QUIET:g} s of zeros between")
        begin = driver.clock
        driver.feed(stimulus.audio)
        driver.end()
        words = words_of([token for token in driver.tokens if token.end > begin])
        missing = 0 if wlk.is_coded else GROSS * len(alone)
        assert len(words) >= len(alone) - missing, (
            f"{len(words)} words came back for speech after {LONG_QUIET:g} s of zeros, "
            f"{len(alone)} for the same speech alone: {' '.join(words)!r}"
        )

    @rule(
        "IN-05",
        "catching up skips audio, or never ends",
        "what is changed while catching up, such as a longer tick, is not changed back",
        "the tick becomes the default one again, not that of the stream",
        kinds="G,O,S",
        since="2.0",
    )
    def test_catching_up_leaves_no_audio_out(self, wlk: BackendUnderTest) -> None:
        """
        A stream that catches up with a backlog (`SupportsCatchUp`) leaves no audio out.

        A flush commits every word, of which a third may be decoded otherwise than without a
        backlog.  After `end_catch_up`, or a reset, it decodes as before.
        """
        stimulus = wlk.speech(24, seed=6, gap=(0.8, 1.6))
        driver = wlk.stream()
        # Not isinstance, which from Python 3.12 on does not see what a wrapper passes on.
        if not callable(getattr(driver.processor, "begin_catch_up", None)):
            raise NotApplicable("its streams cannot catch up", "not declared")
        catch_up: Any = driver.processor
        catch_up.begin_catch_up()
        driver.insert(stimulus.audio)
        driver.end()
        wlk.require_tokens(driver.tokens, stimulus)
        check_spoken(wlk, stimulus, driver.tokens, "catching up with a backlog")
        usual_words, words = (len(words_of(t)) for t in (wlk.solo(stimulus), driver.tokens))
        # Longer windows change how a small model decodes words.
        assert words >= usual_words * (1 - GROSS), (
            f"catching up with {stimulus.seconds:.0f} s gave {words} words, {usual_words} otherwise"
        )
        check_clock(driver.processed_up_to, driver.clock)
        stimulus = wlk.speech(4, seed=6, gap=(0.8, 1.6))
        for end in ("reset", "end_catch_up"):
            _check_catch_up_ends(driver, stimulus, end)
            check_alone(wlk, stimulus, driver, f"after {end}", tolerance=0.1)
        for name, varied, clip in variant_streams(wlk, 4, seed=3):
            if callable(getattr(varied.processor, "begin_catch_up", None)):
                _check_catch_up_ends(varied, clip, "end_catch_up", f"with {name}, ")

    @rule("IN-05", "a buffer or counter overflows eventually", tier="long", since="2.0")
    def test_the_words_of_a_minute_are_the_same_for_half_an_hour(
        self, wlk: BackendUnderTest
    ) -> None:
        """A minute in small chunks gives the same words after thousands of earlier calls."""
        stimulus = wlk.speech(45, seed=22, gap=(0.3, 1.1))
        driver = wlk.stream()
        first: list[str] = []  # the words of the first minute
        errors = 0.0 if wlk.is_coded else 2 * word_error_rate(wlk)
        for number in range(1, 31):
            before = len(driver.tokens)
            driver.feed(stimulus.audio, chunk_seconds=0.1)
            driver.silence(1.0)
            words = words_of(driver.tokens[before:])
            first = first or words
            differing = word_errors(first, words)
            assert differing <= errors * len(first), (
                f"{differing} of {len(first)} words of minute {number} differ from minute 1"
            )


def _check_insert_is_cheap(wlk: BackendUnderTest) -> None:
    """Assert that an insert into a long backlog allocates little, whatever waits already."""
    driver, chunk = wlk.stream(silence(BACKLOG)), white_noise(BRIEF).audio
    copied = []
    with memory_traced():
        for _ in range(INSERTS):
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            driver.insert(chunk)
            copied.append(tracemalloc.get_traced_memory()[1] - before)
    assert median(copied) <= COPIED, (
        f"inserting {BRIEF:g} s allocates {median(copied):,.0f} bytes if {BACKLOG:g} s wait"
    )


def _check_catch_up_ends(driver: StreamDriver, stimulus: Stimulus, end: str, how: str = "") -> None:
    """Assert that a stream decodes as before once `reset` or `end_catch_up` ends a catch-up."""
    processor: Any = driver.processor
    first, *rest = stimulus.chunks(1.0)

    def play(*, catches_up: bool) -> tuple[list[str], dict[str, int]]:
        """Return what each step commits and shows, and the work."""
        driver.reset()
        if catches_up:
            for _ in range(2):  # it may be called again
                processor.begin_catch_up()
            driver.reset() if end == "reset" else processor.end_catch_up()
        texts = []
        for audio in (np.concatenate((first, *rest[:2])), *rest[2:]):  # the first is a backlog
            driver.insert(audio)
            for _ in range(MAX_DRAIN_CALLS):
                if not driver.processor.has_backlog:
                    break
                driver.process()
                texts.append(driver.text + driver.processor.get_buffer().text)
        driver.end()
        return texts, counted(driver.processor.stats)

    usual, found = play(catches_up=False), play(catches_up=True)
    # An engine that answers in its own time may commit at other calls.
    if found != usual and all(play(catches_up=False) == usual for _ in range(REPEATS)):
        what = f"what is committed and shown after each step, {how}after {end}"
        check_texts(usual[0], found[0], what=what)
        raise AssertionError(f"{how}{usual[1]} without a catch-up, {found[1]} after {end}")

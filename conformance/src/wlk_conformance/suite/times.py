"""Rules TIME: the times of tokens on the stream clock."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from itertools import chain
from statistics import mean, median
from typing import TYPE_CHECKING

from wlk_conformance.compare import (
    check_clock,
    check_times,
    recognised_starts,
    start_errors,
    start_pattern,
)
from wlk_conformance.rules import NotApplicable, rule
from wlk_conformance.stimuli import white_noise
from wlk_conformance.suite.scenes import (
    WORDS,
    check_alone,
    known_clips,
    stream_option,
    unusual_clips,
    varied,
)
from wlk_conformance.testing import CELL_SECONDS
from wlk_core.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wlk_conformance.backend_under_test import BackendUnderTest
    from wlk_conformance.stimuli import Stimulus
    from wlk_conformance.testing import StreamDriver
    from wlk_core import ASRToken
    from wlk_core.streaming import Word

    _Clip = tuple[Stimulus, tuple[ASRToken, ...]]  # and what was recognised
    _Run = tuple[Sequence[Word], Sequence[ASRToken]]  # what was spoken, and what was recognised

PAUSE = 7.0  # seconds between clips of one stream
LEADS = (0.5, 4.9, 5.0, 3600.0)  # seconds of silence before the first audio
LONG_TICK = 5.0  # seconds
MEDIAN_ERROR = 0.10  # seconds, on speech, unless the spec declares its own bound
BIAS = 0.10  # seconds, likewise
MISPLACED = 0.1  # share of the words; models sometimes put one into the padding after the audio
FEW_WORDS = 6  # recognised words of one clip whose median error can be large by more than chance
VARIANT_ERROR = 0.15  # seconds: that median
CLEAR_QUIET = 0.3  # seconds after a word whose end is judged
END_ERROR = 0.25  # seconds: the median of those errors
ENOUGH_WORDS = 20  # recognised words needed, because a median of fewer is chance


class TimeRules:
    """Rules of token times."""

    @rule("TIME-01", "ends in frames or ms, copied from the next start, or padded", is_first=True)
    def test_times_lie_inside_the_audio(self, wlk: BackendUnderTest) -> None:
        """Times are finite: 0 <= start <= end <= A + EPS."""
        _conversation(wlk)  # the monitor of every stream checks each token

    @rule("TIME-01", "times are in frames, or on the stream clock", since="2.0", is_first=True)
    def test_the_engines_times_lie_inside_its_audio(self, wlk: BackendUnderTest) -> None:
        """The engine's own times lie inside its audio, except for one word in ten at most."""
        stimulus = wlk.speech(8, seed=7)
        driver = wlk.run(stimulus)
        committed = len(wlk.require_tokens(driver.tokens, stimulus))
        misplaced = driver.processor.stats.misplaced_words
        assert misplaced <= MISPLACED * committed, (
            f"{misplaced} words of the engine start outside the audio of their call, for "
            f"{committed} words committed; times must be seconds from its first sample"
        )

    @rule("TIME-02", "attention peaks are committed unchecked", "a reset drops the last start")
    def test_starts_never_go_back(self, wlk: BackendUnderTest) -> None:
        """Starts never go back, even across silences, resets inside the model and speaker turns."""
        _conversation(wlk)  # the monitor of every stream checks each token

    @rule(
        "TIME-03",
        "processed_up_to is the last token's end, or stable_up_to is processed_up_to",
        "text is stable up to processed_up_to while there is no hypothesis",
    )
    def test_reported_times_hold(self, wlk: BackendUnderTest) -> None:
        """
        `processed_up_to` <= A, never goes back, and equals A after finish.

        The backlog is A - processed_up_to.  No later token starts before `stable_up_to`, which
        never goes back.
        """
        driver = _conversation(wlk)
        # The monitor of every stream checks each emission.
        check_clock(driver.processed_up_to, driver.clock)
        # Seconds apart, so that steps end in words while no other word is shown.
        wlk.run(wlk.speech(8, seed=12, gap=(2.0, 3.2)), chunk_seconds=0.5)

    @rule(
        "TIME-03",
        "words are taken for stable after some seconds, although a tick lasts longer",
        since="2.0",
    )
    def test_reported_times_hold_with_long_ticks(self, wlk: BackendUnderTest) -> None:
        """They also hold with ticks of five seconds, with each policy."""
        option, policies = stream_option(wlk, "tick_seconds")
        tick = min(LONG_TICK, option.maximum or LONG_TICK)
        for policy in policies:
            wlk.run(wlk.speech(16, seed=7), **policy, tick_seconds=tick)

    @rule("TIME-03", "an empty step does not move processed_up_to, or has_backlog is wrong")
    def test_a_drained_stream_has_no_backlog(self, wlk: BackendUnderTest) -> None:
        """Once `has_backlog` is False the backlog is bounded, and process_iter has no work left."""
        stimulus = wlk.log_stimulus(white_noise(12.0 + (wlk.max_delay or 0.0)))
        for chunk_seconds in (1.0, stimulus.seconds):
            driver = wlk.stream()
            driver.feed(stimulus.audio, chunk_seconds=chunk_seconds)
            driver.drain()
            drained = driver.processed_up_to
            assert drained >= stimulus.seconds / 2, (
                f"processed_up_to of a drained stream is {drained:.3f} s after "
                f"{stimulus.seconds:g} s of audio in chunks of {chunk_seconds:g} s"
            )
            idle = driver.process()
            assert idle.processed_up_to == drained, (
                f"has_backlog was False at {drained:.3f} s, but process_iter went on to "
                f"{idle.processed_up_to:.3f} s"
            )

    @rule("TIME-04", "a silence is fed as zeros", "a threshold resets the clock")
    def test_a_leading_silence_shifts_everything(self, wlk: BackendUnderTest) -> None:
        """
        A silence of t0 before the first audio shifts every time by t0 and changes nothing else.

        Tested with 0.5, 4.9, 5.0 and 3600 s.
        """
        stimulus = wlk.speech(5, seed=1)
        for lead in LEADS:
            driver = wlk.stream()
            driver.end_silence(lead)
            driver.feed(stimulus.audio)
            driver.finish()
            check_alone(wlk, stimulus, driver, f"after {lead} s of silence", shift=lead)
            check_clock(driver.processed_up_to, lead + stimulus.seconds)

    @rule(
        "TIME-05",
        "words are spread evenly over their segment",
        "an offset of the decoder's delay, or of padding, is not subtracted",
        "audio without speech is left out, and its time is not added again",
        "frames are counted with a wrong length, which drifts",
        "times of a beam are those of another hypothesis",
        "what times are computed from is kept over a pause, on the clock before it",
        kinds="O,S",
        requires="word-times",
    )
    def test_times_are_the_models_own(self, wlk: BackendUnderTest) -> None:
        """
        Times come from the model's own positions, not from spreading words over a span.

        They are exact to one model frame on scripted engines.  On speech the median error and the
        |bias| are <= 0.10 s unless the spec declares its bounds, and so they are for connected
        words between long pauses, and after `end_silence`.  With other policies and options the
        median is <= 0.15 s, and so is that of the second half of their words.  Words end, with a
        median error of <= 0.25 s, where they were spoken to end.
        """
        unusual = list(chain.from_iterable(unusual_clips(wlk).values()))
        if wlk.is_coded:
            for stimulus in (wlk.speech(8, seed=14, gap=(0.1, 1.6)), *unusual):
                tokens = wlk.require_tokens(wlk.solo(stimulus), stimulus)
                check_times(stimulus.words, tokens, tolerance=CELL_SECONDS)
        else:
            _check_errors(wlk, _alone(wlk, known_clips(wlk)), declared=False)
            # Words that are far from evenly spaced.
            _check_errors(wlk, _alone(wlk, unusual), declared=False)
            _check_errors(wlk, _after_pauses(wlk), declared=False)
            _check_ends(wlk)
        _check_variants(wlk)
        if "speech" in wlk.tiers:
            clips = (wlk.speech(10, seed=seed, gap=(0.05, 0.8)) for seed in range(20, 26))
            _check_errors(wlk, _alone(wlk, clips), declared=True)


def _conversation(wlk: BackendUnderTest) -> StreamDriver:
    """Run a stream through several silences, turns and a backlog, and finish it."""

    def talk() -> StreamDriver:
        driver = wlk.stream()
        for turn, pause in enumerate((0.3, 6.0, 61.0)):
            driver.feed(wlk.speech(5, seed=30 + turn, tail=0.0).audio, chunk_seconds=0.5)
            driver.silence(pause)
            if wlk.has("speaker-turns"):
                driver.feed(wlk.speech(2, seed=40 + turn).audio)
                driver.new_speaker(turn)
        driver.feed(wlk.speech(10, seed=33).audio, chunk_seconds=60.0)
        driver.finish()
        return driver

    for turn in range(3):
        wlk.speech(5, seed=30 + turn, tail=0.0)  # notes the recipes if the stream is cached
    driver = wlk.cached("conversation", talk)
    wlk.require_tokens(driver.tokens)
    return driver


def _check_variants(wlk: BackendUnderTest) -> None:
    """Assert that starts are about right with each policy, and with other values of options."""
    limit = max(wlk.bounds.get("word_start_median", 0.0), VARIANT_ERROR)
    for name, (stimulus, tokens) in (varied(wlk) | _among_zeros(wlk)).items():
        spoken, starts = recognised_starts(stimulus.words, tokens)
        off = [abs(start - word[0]) for word, start in zip(spoken, starts, strict=True)]
        pattern = start_pattern(spoken, starts)
        for part, errors in (("", off), (" in the second half", off[len(off) // 2 :])):
            if len(errors) < FEW_WORDS:
                continue
            assert median(errors) <= (CELL_SECONDS if wlk.is_coded else limit), (
                f"with {name}, word starts have a median error of {median(errors):.3f} s{part}"
                + (pattern and f"; {pattern}")
            )


def _among_zeros(wlk: BackendUnderTest) -> dict[str, _Clip]:
    """Return words with seconds of zeros before them and between them, with each policy."""
    runs = {}
    for arguments in wlk.policy_variants:
        with suppress(OptionError):  # not every model has every policy of its backend
            clip = wlk.speech_for(arguments, WORDS, seed=30, gap=(1.8, 2.6), burst=3, lead=LEADS[1])
            stimulus = wlk.log_stimulus(clip.with_zeros())
            tokens = wlk.run(stimulus, **arguments).tokens
            runs[f"policy={arguments['policy']} and zeros between the words"] = stimulus, tokens
    return runs


def _check_ends(wlk: BackendUnderTest) -> None:
    """Assert that words before a pause end there, and not where they or the next ones begin."""
    errors: list[float] = []
    for stimulus in known_clips(wlk):
        tokens = wlk.require_tokens(wlk.solo(stimulus), stimulus)
        nexts = [*(word.start for word in stimulus.words[1:]), stimulus.seconds]
        quiet = {
            word.start: after - word.end for word, after in zip(stimulus.words, nexts, strict=True)
        }
        spoken, starts = recognised_starts(stimulus.words, tokens)
        for (begin, end), start in zip(spoken, starts, strict=True):
            # A word may have several tokens; the next word begins after the pause.
            ends = [each.end for each in tokens if start <= each.start <= start + end - begin]
            if quiet[begin] > CLEAR_QUIET:
                errors.append(max(ends) - end)
    if len(errors) >= FEW_WORDS:
        error = median(errors)
        wlk.notes.append(f"word ends: bias {error:+.3f} s, n={len(errors)}")
        assert abs(error) <= END_ERROR, (
            f"{len(errors)} words before a pause end {abs(error):.2f} s too "
            f"{'late' if error > 0 else 'early'}, {END_ERROR:g} s allowed"
        )


def _alone(wlk: BackendUnderTest, clips: Iterable[Stimulus]) -> Iterator[_Run]:
    """Yield the words of each clip, and the tokens of a stream of its own."""
    for stimulus in clips:
        yield stimulus.words, wlk.require_tokens(wlk.solo(stimulus), stimulus)


def _after_pauses(wlk: BackendUnderTest) -> Iterator[_Run]:
    """Yield the words of each clip, and their tokens in one stream where each follows a pause."""
    driver, clips = wlk.stream(), list(known_clips(wlk))
    for number, stimulus in enumerate((clips[-1], *clips)):
        begin, before = driver.clock, len(driver.tokens)
        driver.feed(stimulus.audio)
        driver.silence(PAUSE)
        if number:
            tokens = wlk.require_tokens(driver.tokens[before:], stimulus)
            yield [word.shifted(begin) for word in stimulus.words], tokens


def _check_errors(wlk: BackendUnderTest, runs: Iterable[_Run], *, declared: bool) -> None:
    """
    Assert that the recognised words of *runs* start when they were spoken.

    A bound that the spec declares replaces that of the suite if it is wider or, with *declared*,
    in any case.
    """
    errors: list[float] = []
    patterns: Counter[str] = Counter()  # in how many clips, because each has its own pauses
    for words, tokens in runs:
        spoken, starts = recognised_starts(words, tokens)
        errors += start_errors(words, tokens)
        patterns[start_pattern(spoken, starts)] += 1
    pattern = max(patterns, key=lambda text: (bool(text), patterns[text]), default="")
    if len(errors) < ENOUGH_WORDS:
        raise NotApplicable(f"{len(errors)} words were recognised, {ENOUGH_WORDS} are needed")
    outer = len(errors) // 10  # on either side: words mistaken for their neighbours
    middle, bias = median(map(abs, errors)), mean(sorted(errors)[outer : len(errors) - outer])
    wlk.notes.append(
        f"word starts: median error {middle:.3f} s, bias {bias:+.3f} s, n={len(errors)}"
    )
    for name, value, limit in (
        ("word_start_median", middle, MEDIAN_ERROR),
        ("word_start_bias", abs(bias), BIAS),
    ):
        bound = wlk.bounds.get(name, limit)
        allowed = bound if declared else max(bound, limit)
        assert value <= allowed, (
            f"{name} is {value:.3f} s (bias {bias:+.3f} s), {allowed:.3f} s allowed, for "
            f"{len(errors)} words" + (pattern and f"; {pattern}")
        )

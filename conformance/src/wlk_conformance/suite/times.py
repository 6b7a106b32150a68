"""Rules TIME: where tokens lie on the stream clock."""

from __future__ import annotations

from itertools import pairwise
import math
from statistics import mean, median
from typing import TYPE_CHECKING

from wlk_conformance.compare import check_same, check_times, check_words, words_of
from wlk_conformance.material import hiss
from wlk_conformance.rules import NotApplicable, rule
from wlk_core import EPS
from wlk_core.testing import CELL_SECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_conformance.material import Fed
    from wlk_conformance.subject import Subject
    from wlk_core import ASRToken
    from wlk_core.testing import StreamDriver

__all__ = ["TimeRules"]

INSTANT = 1e-6  # seconds: what summing floats may do to a clock that is exact
LEADS = (0.5, 4.9, 5.0, 3600.0)  # seconds of silence before the first audio
MEDIAN_ERROR = 0.10  # seconds, on speech, unless the spec declares its own bound
BIAS = 0.10  # seconds, likewise


class TimeRules:
    """Rules of token times."""

    @rule("TIME-01", causes=("an end is the next start, or a padded one", "an end is rounded up"))
    def test_times_lie_inside_the_audio(self, wlk: Subject) -> None:
        """Finite, 0 <= start <= end <= A + EPS."""
        driver = _conversation(wlk)
        for record in driver.records:
            for token in record.emission.committed:
                assert math.isfinite(token.start), f"{token} has no time"
                assert math.isfinite(token.end), f"{token} has no time"
                assert 0 <= token.start <= token.end <= record.audio_time + EPS, (
                    f"{token.text!r} lies at {token.start:.3f}-{token.end:.3f} s, the audio ends "
                    f"at {record.audio_time:.3f} s"
                )

    @rule("TIME-02", causes=("attention peaks go out as they are (B23)", "a reset forgets a floor"))
    def test_starts_never_go_back(self, wlk: Subject) -> None:
        """Starts never go back, across silences, resets inside the model, speaker turns too."""
        for one, other in pairwise(_conversation(wlk).tokens):
            assert one.start <= other.start, (
                f"{other.text!r} starts at {other.start:.3f} s, after {one.text!r} at "
                f"{one.start:.3f} s"
            )

    @rule(
        "TIME-03",
        causes=(
            "processed_up_to reports the end of the last token",
            "stable_up_to reports processed_up_to while words are still held back",
        ),
    )
    def test_reports_keep_their_word(self, wlk: Subject) -> None:
        """
        `processed_up_to` <= A, never goes back, equals A after finish.

        The backlog is A - processed_up_to.  No later token starts before `stable_up_to`, which
        never goes back.
        """
        driver = _conversation(wlk)
        upto = stable = 0.0
        for record in driver.records:
            came = record.emission
            for token in came.committed:
                assert token.start >= stable - INSTANT, (
                    f"{token.text!r} starts at {token.start:.3f} s, and everything before "
                    f"{stable:.3f} s was said to be stable"
                )
            assert came.processed_up_to >= upto, (
                f"processed_up_to went back from {upto:.3f} s to {came.processed_up_to:.3f} s"
            )
            assert came.processed_up_to <= record.audio_time + INSTANT, (
                f"processed_up_to is {came.processed_up_to:.3f} s of {record.audio_time:.3f} s"
            )
            assert came.stable_up_to >= stable, (
                f"stable_up_to went back from {stable:.3f} s to {came.stable_up_to:.3f} s"
            )
            upto, stable = came.processed_up_to, came.stable_up_to
        assert abs(upto - driver.clock) <= INSTANT, (
            f"processed_up_to is {upto:.6f} s after finish, the clock says {driver.clock:.6f} s"
        )

    @rule("TIME-03", causes=("a step that commits nothing does not move processed_up_to",))
    def test_processed_up_to_moves(self, wlk: Subject) -> None:
        """The backlog of a drained stream is bounded, heard or not."""
        fed = wlk.fed(hiss(12.0))
        driver = wlk.stream()
        driver.feed(fed.audio)
        driver.drain()
        assert driver.processed_up_to >= fed.seconds / 2, (
            f"processed_up_to is {driver.processed_up_to:.3f} s after {fed.seconds:g} s, drained"
        )

    @rule("TIME-04", causes=("a silence is fed as zeros", "a threshold resets the clock (B09)"))
    def test_a_leading_silence_shifts_everything(self, wlk: Subject) -> None:
        """
        A silence of t0 before the first audio shifts every time by t0 and changes nothing else.

        Tried with 0.5, 4.9, 5.0 and 3600 s.
        """
        fed = wlk.speech(5, seed=1)
        expected = wlk.solo(fed)
        for lead in LEADS:
            driver = wlk.stream()
            driver.end_silence(lead)
            driver.feed(fed.audio)
            driver.finish()
            check_same(expected, driver.tokens, what=f"after {lead} s of silence", shift=lead)
            upto = driver.processed_up_to
            assert abs(upto - lead - fed.seconds) <= INSTANT, (
                f"processed_up_to is {upto:.6f} s after {lead} s of silence and "
                f"{fed.seconds:.6f} s of audio"
            )

    @rule(
        "TIME-05",
        kinds="O",
        requires="word-times",
        causes=(
            "words are spread evenly over the span of their segment (B19)",
            "the delay of the model is not subtracted (B20)",
        ),
    )
    def test_times_are_the_models_own(self, wlk: Subject) -> None:
        """
        Times come from the model's own positions, not from spreading words over a span.

        Within one model frame on scripted engines; on speech median error <= 0.10 s and
        |bias| <= 0.10 s unless the spec declares its bound.
        """
        if wlk.material.kind != "coded":
            raise NotApplicable("no exact times are known: --speech measures them")
        fed = wlk.speech(8, seed=14, gap=(0.1, 1.6))
        check_times(fed.words, wlk.heard(wlk.solo(fed), fed), tolerance=CELL_SECONDS)

    @rule("TIME-05", kinds="S", tier="speech", requires="word-times", causes=("as above",))
    def test_times_on_speech_are_near_the_truth(self, wlk: Subject) -> None:
        """On speech the median error and the bias of word starts are within their bounds."""
        errors: list[float] = []
        for seed in range(20, 26):
            fed = wlk.speech(10, seed=seed, gap=(0.05, 0.8))
            tokens = wlk.heard(wlk.solo(fed), fed)
            if words_of(tokens) == words_of(fed.words):
                errors += _errors(fed, tokens)
        assert errors, "not one clip was heard as it was said"
        _check_errors(wlk, errors)


def _conversation(wlk: Subject) -> StreamDriver:
    """Run a stream through silences of several lengths, turns and a backlog, and finish it."""

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

    driver = wlk.remember("conversation", talk)
    for turn in range(3):
        wlk.speech(5, seed=30 + turn, tail=0.0)
    wlk.heard(driver.tokens)
    return driver


def _errors(fed: Fed, tokens: Sequence[ASRToken]) -> list[float]:
    check_words(fed.words, tokens, what="the transcript")
    return [token.start - word.start for word, token in zip(fed.words, tokens, strict=True)]


def _check_errors(wlk: Subject, errors: Sequence[float]) -> None:
    middle, bias = median(map(abs, errors)), mean(errors)
    wlk.note(f"word starts: median error {middle:.3f} s, bias {bias:+.3f} s, n={len(errors)}")
    bound = wlk.spec.bounds.get("word_start_median", MEDIAN_ERROR)
    assert middle <= bound, f"median error of word starts {middle:.3f} s, allowed {bound:.3f} s"
    bound = wlk.spec.bounds.get("word_start_bias", BIAS)
    assert abs(bias) <= bound, f"bias of word starts {bias:+.3f} s, allowed {bound:.3f} s"

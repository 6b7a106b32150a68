"""The contract of a diarizer: who speaks when, late and in any order, but each span once."""

from __future__ import annotations

from functools import partial
import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from wlk_conformance.annotators.suite import (
    CODED_SPEECH,
    AnnotatorRules,
    annotator_rule,
    check_failure,
    check_no_work,
)
from wlk_conformance.testing import load_clip, partition
from wlk_core import EPS
from wlk_core.annotators import Diarizer
from wlk_core.processor import SAMPLE_RATE
from wlk_core.session import SpeakerTurn

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from wlk_core.annotators import AnnotatorKind
    from wlk_core.tokens import SpeakerSpan

__all__ = ["DiarizerConformance"]

_STEP_SECONDS = 0.1  # of audio between two calls
_TOLERANCE = 0.1  # seconds, of the ends of a span


class DiarizerConformance(AnnotatorRules[Diarizer]):
    """
    The contract of a diarizer, as tests.

    A test module of the plugin contains::

        class TestWho(DiarizerConformance):
            annotator = "who"
    """

    kind: ClassVar[AnnotatorKind] = "diarizer"

    def speech(self) -> NDArray[np.float32]:
        """Return speech in which the diarizer finds a speaker, float32[n] at 16 kHz."""
        return load_clip("demo").audio

    @annotator_rule("DIA-01")
    def test_spans_lie_inside_the_audio(self) -> None:
        """A span has a speaker, text or number, and finite times with 0 <= start <= end <= A."""
        diarizer, clock = self.open(), 0.0
        for chunk in partition(self._copy(), 0.5):
            diarizer.insert_audio_chunk(chunk)
            clock += len(chunk) / SAMPLE_RATE
            for span in diarizer.process_iter():
                _check_span(span, clock)
        for span in diarizer.process_iter(is_last=True):
            _check_span(span, clock)

    @annotator_rule("DIA-02")
    def test_each_span_comes_once(self) -> None:
        """A span is final and comes once: spans of one speaker do not overlap."""
        spans = sorted(self._run(self._copy()), key=lambda span: span.start)
        last: dict[object, SpeakerSpan] = {}
        for span in spans:
            before = last.get(span.speaker)
            assert before is None or span.start >= before.end - EPS, (
                f"{span} overlaps {before}, which came too"
            )
            last[span.speaker] = span

    @annotator_rule("DIA-03")
    def test_a_span_is_late_by_max_delay_at_most(self) -> None:
        """
        No span ends more than `max_delay` before the end of the audio when it comes.

        Spans may come in any order within it.
        """
        diarizer, clock = self.open(), 0.0
        bound = diarizer.max_delay + _STEP_SECONDS + EPS
        for chunk in partition(self._copy(), _STEP_SECONDS):
            diarizer.insert_audio_chunk(chunk)
            clock += len(chunk) / SAMPLE_RATE
            _check_delay(diarizer.process_iter(), clock, bound)
        _check_delay(diarizer.process_iter(is_last=True), clock, bound)

    @annotator_rule("DIA-04")
    def test_the_cut_of_the_audio_moves_no_span(self) -> None:
        """The same audio in other chunks has the same spans, within 0.1 s."""
        expected = self._run(self._copy(), seconds=0.5)
        for seconds in (0.1, 3.1, 60.0):
            _check_same(
                expected, self._run(self._copy(), seconds=seconds), f"chunks of {seconds} s"
            )

    @annotator_rule("DIA-05")
    def test_a_silence_moves_the_clock(self) -> None:
        """`insert_silence(t)` moves every later span by t seconds, and no earlier one."""
        speech, length = self._copy(), len(self._copy()) / SAMPLE_RATE
        expected = self._run(speech)
        for seconds in (0.5, 5.0, 3600.0):
            diarizer = self.open()
            diarizer.insert_silence(seconds)
            first = self._feed(diarizer, speech)
            diarizer.insert_silence(seconds)
            found = first + self._feed(diarizer, speech) + list(diarizer.process_iter(is_last=True))
            late = seconds + length
            _check_same(
                [_moved(span, seconds) for span in expected],
                [span for span in found if span.start < late],
                f"a leading silence of {seconds} s",
            )
            after = [span for span in found if span.start >= late]
            assert all(span.start >= late + seconds - _TOLERANCE for span in after), (
                f"a span begins in the silence of {seconds} s from {late:.2f} s on: {after[0]}"
            )
            assert bool(after) == bool(expected), f"no span after a silence of {seconds} s"

    @annotator_rule("DIA-06")
    def test_nothing_comes_without_audio(self) -> None:
        """`process_iter` without new audio returns nothing and runs no model."""
        diarizer = self.open()
        self._feed(diarizer, self._copy())
        list(diarizer.process_iter())
        again: list[SpeakerSpan] = []
        check_no_work(
            diarizer, lambda: again.extend(diarizer.process_iter()), "process_iter without audio"
        )

        assert not again, f"{again[0]} came without new audio"

    @annotator_rule("DIA-07")
    def test_inserting_copies_and_runs_no_model(self) -> None:
        """`insert_audio_chunk` runs no model, changes no sample and keeps a copy."""
        speech, diarizer = self._copy(), self.open()
        expected = self._run(speech)
        for chunk in partition(speech, 0.5):
            samples = chunk.copy()
            insert = partial(diarizer.insert_audio_chunk, samples)
            check_no_work(diarizer, insert, "inserting audio")
            assert np.array_equal(chunk, samples), "the samples given were changed"
            samples[:] = 0.0
        _check_same(expected, list(diarizer.process_iter(is_last=True)), "memory that is reused")

    @annotator_rule("DIA-08")
    def test_the_last_call_returns_everything(self) -> None:
        """`process_iter(is_last=True)` returns all spans that are left; a second one none."""
        speech, diarizer = self._copy(), self.open()
        followed = self._run(np.concatenate([speech, np.zeros(10 * SAMPLE_RATE, np.float32)]))
        found = self._feed(diarizer, speech) + list(diarizer.process_iter(is_last=True))
        end = max((span.end for span in followed), default=0.0)
        assert max((span.end for span in found), default=0.0) >= end - 2 * _TOLERANCE, (
            f"spans end at {end:.2f} s where audio follows, the last call left them out"
        )
        again = list(diarizer.process_iter(is_last=True))

        assert not again, f"{again[0]} came with a second last call"

    @annotator_rule("DIA-09")
    def test_a_reset_gives_a_new_diarizer(self) -> None:
        """After `reset` the same audio has the spans that it has in a new diarizer."""
        diarizer = self.open()
        diarizer.insert_silence(7.0)
        self._feed(diarizer, self._copy()[: 3 * SAMPLE_RATE])
        diarizer.reset()
        found = self._feed(diarizer, self._copy()) + list(diarizer.process_iter(is_last=True))

        _check_same(self._run(self._copy()), found, "a reset")

    @annotator_rule("DIA-10")
    def test_two_diarizers_share_nothing(self) -> None:
        """Interleaved streams have the spans of single ones."""
        first, second = self.open(), self.open()
        found: list[SpeakerSpan] = []
        for chunk in partition(self._copy(), 0.5):
            first.insert_audio_chunk(chunk)
            second.insert_audio_chunk(chunk[::-1].copy())
            found += first.process_iter()
            list(second.process_iter())
        found += first.process_iter(is_last=True)

        _check_same(self._run(self._copy(), seconds=0.5), found, "another stream")

    @annotator_rule("DIA-11", kinds="F")
    def test_a_failure_changes_nothing(self) -> None:
        """A call whose model fails raises and changes nothing: made again, it returns the spans."""
        expected = self._run(self._copy(), seconds=60.0)
        diarizer = self.open_failing(1)
        diarizer.insert_audio_chunk(self._copy())
        found = check_failure(lambda: list(diarizer.process_iter(is_last=True)))
        assert isinstance(found, list)

        _check_same(expected, found, "a failure")

    @annotator_rule("DIA-12")
    def test_a_diarizer_is_closed_twice(self) -> None:
        """`close` may be called again."""
        self.close_twice()

    @annotator_rule("DIA-13")
    def test_there_is_no_speaker_in_silence(self) -> None:
        """Thirty seconds of zeros have no speaker."""
        spans = self._run(np.zeros(30 * SAMPLE_RATE, np.float32))

        assert not spans, f"found in silence: {spans[0]}"

    @annotator_rule("DIA-14")
    def test_a_session_commits_the_same_words(self) -> None:
        """A session commits the same words with the diarizer, and reports its spans."""
        turns = [event for event in self.run_session("diarizer") if isinstance(event, SpeakerTurn)]
        pause = np.zeros(3 * SAMPLE_RATE, np.float32)
        alone = self._run(np.concatenate([CODED_SPEECH, pause, CODED_SPEECH]), seconds=0.5)

        _check_same(alone, [event.span for event in turns], "a session")

    def _copy(self) -> NDArray[np.float32]:
        """Return the speech anew, because a faulty one may change its samples."""
        return self.speech().copy()

    def _run(self, audio: NDArray[np.float32], *, seconds: float = 1.0) -> list[SpeakerSpan]:
        diarizer = self.open()
        found = self._feed(diarizer, audio, seconds=seconds)
        return [*found, *diarizer.process_iter(is_last=True)]

    @staticmethod
    def _feed(
        diarizer: Diarizer, audio: NDArray[np.float32], *, seconds: float = 1.0
    ) -> list[SpeakerSpan]:
        found: list[SpeakerSpan] = []
        for chunk in partition(audio, seconds):
            diarizer.insert_audio_chunk(chunk)
            found += diarizer.process_iter()
        return found


def _check_span(span: SpeakerSpan, clock: float) -> None:
    assert isinstance(span.speaker, int | str), f"{span} has no speaker"
    assert math.isfinite(span.end), f"{span} ends at no time"
    assert 0 <= span.start <= span.end <= clock + EPS, f"{span} lies outside 0 to {clock:.2f} s"


def _check_delay(spans: Iterable[SpeakerSpan], clock: float, bound: float) -> None:
    for span in spans:
        assert clock - span.end <= bound, (
            f"{span} came at {clock:.2f} s, {clock - span.end - bound:.2f} s later than declared"
        )


def _moved(span: SpeakerSpan, seconds: float) -> SpeakerSpan:
    return type(span)(span.speaker, span.start + seconds, span.end + seconds)


def _check_same(expected: list[SpeakerSpan], found: list[SpeakerSpan], what: str) -> None:
    """Compare spans by time; names of speakers may differ, their changes may not."""
    expected, found = (
        sorted(s, key=lambda span: (span.start, span.end)) for s in (expected, found)
    )
    assert len(expected) == len(found), f"{len(expected)} spans became {len(found)} by {what}"
    names: dict[object, object] = {}
    for a, b in zip(expected, found, strict=True):
        near = abs(a.start - b.start) <= _TOLERANCE and abs(a.end - b.end) <= _TOLERANCE
        assert near, f"{a} became {b} by {what}"
        assert names.setdefault(a.speaker, b.speaker) == b.speaker, (
            f"{a} is by another speaker by {what}: {b}"
        )

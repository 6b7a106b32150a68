"""Rules QUAL: known speech, measured; a floor for the digits checkpoints."""

from __future__ import annotations

from statistics import mean, median, quantiles
from time import perf_counter
from typing import TYPE_CHECKING

import attrs
import numpy as np

from wlk_conformance.compare import words_of
from wlk_conformance.material import hiss, pause, tones
from wlk_conformance.quality import align, word_errors
from wlk_conformance.rules import NotApplicable, rule
from wlk_core.testing import noise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_conformance.material import Fed
    from wlk_conformance.subject import Subject
    from wlk_core import ASRToken
    from wlk_core.testing import StreamDriver

__all__ = ["QualityRules"]

CLIPS = range(60, 70)  # seeds of the clips that are measured
WORDS = 12  # in each
LONG_WORDS = 480  # about ten minutes with the pauses between them
NOISE = (20, 10)  # decibels of speech over noise
NEAR = (0.05, 0.1, 0.2)  # seconds, shares of word starts within


class QualityRules:
    """Rules of quality on known speech."""

    @rule("QUAL-01", kinds="S", tier="speech", causes=("the engine runs the checkpoint in int8",))
    def test_words_and_times_keep_their_bounds(self, wlk: Subject) -> None:
        """
        WER and median word-time error on the connected-digit clips keep the declared bounds.

        The bounds are those that the spec declares for its `digits` checkpoint.
        """
        errors = total = 0
        off: list[float] = []
        for seed in CLIPS:
            fed = wlk.speech(WORDS, seed=seed, gap=(0.05, 0.6))
            tokens = wlk.heard(wlk.solo(fed), fed)
            errors += word_errors(words_of(fed.words), words_of(tokens))
            total += len(fed.words)
            off += _offsets(fed, tokens)
        rate, middle = errors / total, median(map(abs, off))
        _note_times(wlk, off)
        wlk.note(f"WER {100 * rate:.1f} % of {total} words")
        for name, came in (("wer", rate), ("word_start_median", middle)):
            bound = wlk.spec.bounds.get(name)
            assert bound is None or came <= bound, f"{name} is {came:.3f}, declared is {bound:g}"
        if not set(wlk.spec.bounds) & {"wer", "word_start_median"}:
            raise NotApplicable(f"no bounds are declared; measured: {'; '.join(wlk.notes)}")

    @rule("QUAL-01", kinds="S", tier="long", causes=("a long stream drifts or loses its place",))
    def test_ten_minutes_keep_the_bound(self, wlk: Subject) -> None:
        """Ten minutes of connected digits in one stream keep the declared word error rate too."""
        fed = wlk.speech(LONG_WORDS, seed=70, gap=(0.05, 1.5))
        tokens = wlk.heard(wlk.run(fed).tokens, fed)
        rate = word_errors(words_of(fed.words), words_of(tokens)) / len(fed.words)
        wlk.note(f"WER {100 * rate:.1f} % of {len(fed.words)} words in {fed.seconds:.0f} s")
        bound = wlk.spec.bounds.get("wer")
        assert bound is None or rate <= bound, f"wer is {rate:.3f}, declared is {bound:g}"

    @rule(
        "QUAL-02",
        kinds="S",
        tier="speech",
        causes=(
            "the model was never shown silence",
            "a hallucination is kept",
        ),
    )
    def test_nothing_is_heard_in_nothing(self, wlk: Subject) -> None:
        """Thirty seconds of zeros, of low noise, or of tones outside the vocabulary: nothing."""
        for fed in (pause(30.0), hiss(30.0, seed=1, level=0.003), tones(30.0)):
            driver = wlk.run(wlk.fed(fed))
            assert not driver.tokens, f"{driver.text[:80]!r} was heard in {fed.recipe}"

    @rule("QUAL-03", kinds="S", tier="speech")
    def test_delays_are_measured(self, wlk: Subject) -> None:
        """Emission latency, hold-back and erasure are measured and reported, never judged."""
        latency: list[float] = []
        aware: list[float] = []
        holdback: list[float] = []
        erased = shown = flushed = 0
        for seed in list(CLIPS)[:4]:
            fed = wlk.speech(WORDS, seed=seed, gap=(0.05, 0.6))
            driver = wlk.stream()
            before: list[str] = []
            is_free = 0.0  # the stream time at which the work so far would be done
            for chunk in fed.chunks(0.5):
                began = perf_counter()
                driver.insert(chunk)
                committed = driver.drain()
                is_free = max(is_free, driver.clock) + perf_counter() - began
                aware += [is_free - token.end for token in committed]
                buffer = driver.processor.get_buffer()
                now = words_of(driver.tokens) + words_of(buffer.tokens)
                kept = _common(before, now)
                erased, shown = erased + len(before) - kept, shown + len(now) - kept
                before = now
                if buffer.tokens:
                    holdback.append(driver.clock - buffer.tokens[0].start)
            flushed += len(driver.finish().committed)
            latency += _latencies(driver)
        wlk.heard(driver.tokens, fed)
        wlk.note(f"emission latency: {_spread(latency)}, computation not counted")
        wlk.note(f"with it on this machine, but for finish: {_spread(aware)}")
        wlk.note(f"hold-back: {_spread(holdback)}")
        wlk.note(f"erased {erased} of {shown} words shown")
        wlk.note(f"{flushed} words came at finish")

    @rule("QUAL-03", kinds="S", tier="speech")
    def test_noise_and_flushes_are_measured(self, wlk: Subject) -> None:
        """Word errors in noise and words that a flush leaves out are measured, never judged."""
        clips = [wlk.speech(WORDS, seed=seed, gap=(0.2, 0.6)) for seed in list(CLIPS)[:4]]
        missing = before = 0
        for fed in clips:
            middle = fed.words[WORDS // 2]
            driver = wlk.stream()
            driver.feed(fed.cut(middle.end + 0.1)[0])
            driver.start_silence()
            said = words_of(fed.words[: WORDS // 2 + 1])
            missing += len(said) - len(align(said, words_of(driver.tokens)))
            before += len(said)
        wlk.note(f"{missing} of {before} words missing after {len(clips)} flushes")
        if wlk.material.kind == "coded":
            return  # noise would be another code
        for decibels in NOISE:
            errors = sum(
                word_errors(words_of(fed.words), words_of(wlk.run(_noisy(fed, decibels)).tokens))
                for fed in clips
            )
            rate = errors / (WORDS * len(clips))
            wlk.note(f"WER {100 * rate:.1f} % in white noise at {decibels} dB")


def _noisy(fed: Fed, decibels: float) -> Fed:
    """Return the same words in white noise, *decibels* below the speech."""
    level = float(np.sqrt(np.square(fed.audio).mean())) * 10 ** (-decibels / 20)
    audio = fed.audio + noise(fed.seconds, level=level, seed=1)[: len(fed.audio)]
    return attrs.evolve(fed, audio=audio, recipe=f"{fed.recipe} + noise at {decibels} dB")


def _offsets(fed: Fed, tokens: Sequence[ASRToken]) -> list[float]:
    """Return how late each word that was heard right starts."""
    timed = [(word, token.start) for token in tokens for word in words_of([token])]
    pairs = align(words_of(fed.words), [word for word, _ in timed])
    return [timed[heard][1] - fed.words[said].start for said, heard in pairs]


def _note_times(wlk: Subject, off: Sequence[float]) -> None:
    if not off:
        return
    size = [abs(seconds) for seconds in off]
    shares = ", ".join(
        f"{100 * mean(seconds <= near for seconds in size):.0f} % within {1000 * near:.0f} ms"
        for near in NEAR
    )
    wlk.note(f"word starts: {_spread(size)}, bias {mean(off):+.3f} s, {shares}")


def _latencies(driver: StreamDriver) -> list[float]:
    return [
        record.audio_time - token.end
        for record in driver.records
        for token in record.emission.committed
    ]


def _spread(seconds: Sequence[float]) -> str:
    if len(seconds) < 2:
        return "not enough words"
    return f"median {median(seconds):.3f} s, p90 {quantiles(seconds, n=10)[-1]:.3f} s"


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    count = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        count += 1
    return count

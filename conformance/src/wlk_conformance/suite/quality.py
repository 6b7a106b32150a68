"""Rules QUAL: quality on known speech, and the bounds of the digits checkpoints."""

from __future__ import annotations

from itertools import takewhile
from statistics import mean, median, quantiles
from typing import TYPE_CHECKING

import numpy as np

from wlk_conformance.compare import align, check_words, start_errors, word_errors, words_of
from wlk_conformance.rules import NotApplicable, rule
from wlk_conformance.stimuli import Stimulus, white_noise
from wlk_conformance.suite.scenes import (
    GROSS,
    OVER,
    check_spoken,
    known_clips,
    unusual_clips,
    varied,
)
from wlk_conformance.testing import silence, tone

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_conformance.backend_under_test import BackendUnderTest

CLIPS = range(60, 70)  # seeds of the clips that are measured
WORDS = 12  # in each clip
TONES = (220.0, 440.0, 1000.0)  # Hz


class QualityRules:
    """Rules of quality on known speech."""

    @rule("QUAL-01", "the engine runs the checkpoint in int8", kinds="S", tier="speech")
    def test_words_and_times_keep_their_bounds(self, wlk: BackendUnderTest) -> None:
        """
        WER and median word-time error on the connected-digit clips keep the declared bounds.

        The bounds are those that the spec declares for its `digits` checkpoint.
        """
        errors = total = 0
        off: list[float] = []
        for seed in CLIPS:
            stimulus = wlk.speech(WORDS, seed=seed, gap=(0.05, 0.6))
            tokens = wlk.require_tokens(wlk.solo(stimulus), stimulus)
            errors += word_errors(stimulus.spoken, words_of(tokens))
            total += len(stimulus.spoken)
            off += start_errors(stimulus.words, tokens)
        rate = errors / total
        measured = {"wer": rate}
        if off:
            size = list(map(abs, off))
            measured["word_start_median"] = median(size)
            wlk.notes.append(f"word starts: {_spread(size)}, bias {mean(off):+.3f} s")
        wlk.notes.append(f"WER {100 * rate:.1f} % of {total} words")
        for name, value in measured.items():
            bound = wlk.bounds.get(name)
            assert bound is None or value <= bound, f"{name} is {value:.3f}, declared: {bound:g}"
        if not wlk.bounds.keys() & measured.keys():
            raise NotApplicable(
                f"no bounds are declared; measured: {'; '.join(wlk.notes)}", "not declared"
            )

    @rule("QUAL-01", "a long stream drifts or loses its position", kinds="S", tier="long")
    def test_ten_minutes_keep_the_bound(self, wlk: BackendUnderTest) -> None:
        """Ten minutes of connected digits in one stream keep the declared word error rate."""
        stimulus = wlk.speech(480, seed=70, gap=(0.05, 1.5))
        tokens = wlk.require_tokens(wlk.run(stimulus).tokens, stimulus)
        rate = word_errors(stimulus.spoken, words_of(tokens)) / len(stimulus.spoken)
        wlk.notes.append(f"WER {100 * rate:.1f} % of {len(stimulus.spoken)} words in ten minutes")
        bound = wlk.bounds.get("wer", rate)
        assert rate <= bound, f"wer is {rate:.3f}, declared: {bound:g}"

    @rule("QUAL-02", "the model was never trained on silence", kinds="S", tier="speech")
    def test_audio_without_words_gives_no_text(self, wlk: BackendUnderTest) -> None:
        """
        Thirty seconds of zeros, low noise, or tones outside the vocabulary commit nothing.

        A spec may declare how many words the three together may have, as `invented_words`.
        """
        allowed = wlk.bounds.get("invented_words", 0)
        invented: list[str] = []
        tones = np.concatenate([tone(10.0, hertz=hertz, level=0.05) for hertz in TONES])
        for stimulus in (
            Stimulus(audio=silence(30.0), recipe="30 s of zeros"),
            white_noise(30.0, seed=1, level=0.003),
            Stimulus(audio=tones, recipe=f"30 s of tones at {TONES} Hz"),
        ):
            driver = wlk.run(wlk.log_stimulus(stimulus))
            invented += words_of(driver.tokens)
            assert len(invented) <= allowed, (
                f"{driver.text[:80]!r} was committed for {stimulus.recipe}, {len(invented)} words "
                f"so far, {allowed:g} allowed"
            )
        if invented:
            wlk.notes.append(f"{len(invented)} words were committed for audio without any")

    @rule("QUAL-03", kinds="S", tier="speech")
    def test_delays_are_measured(self, wlk: BackendUnderTest) -> None:
        """Emission latency, hold-back and erasure are measured and reported, never judged."""
        latency: list[float] = []
        holdback: list[float] = []
        erased = shown = 0
        for seed in list(CLIPS)[:4]:
            stimulus = wlk.speech(WORDS, seed=seed, gap=(0.05, 0.6))
            driver = wlk.stream()
            before: list[str] = []
            for chunk in stimulus.chunks(0.5):
                driver.insert(chunk)
                driver.drain()
                buffer = driver.processor.get_buffer()
                now = words_of(driver.tokens) + words_of(buffer.tokens)
                same = takewhile(lambda pair: pair[0] == pair[1], zip(before, now, strict=False))
                kept = sum(1 for _ in same)
                erased += len(before) - kept
                shown += len(now) - kept
                before = now
                if buffer.tokens:
                    holdback.append(driver.clock - buffer.tokens[0].start)
            driver.finish()
            latency += [
                record.audio_time - token.end
                for record in driver.records
                for token in record.emission.committed
            ]
        wlk.require_tokens(driver.tokens, stimulus)
        wlk.notes.append(f"emission latency: {_spread(latency)}, computation not counted")
        wlk.notes.append(f"hold-back: {_spread(holdback)}")
        wlk.notes.append(f"erased {erased} of {shown} words shown")

    @rule("QUAL-04", "words are dropped, or the model knows other words", since="2.0", kinds="O,S")
    def test_known_words_come_back(self, wlk: BackendUnderTest) -> None:
        """
        The words that a model is declared to recognise come back.

        At least a third of them are right, and their number is within a third of that spoken.
        QUAL-01 judges the declared word error rate.
        """
        spoken = committed = right = 0
        for stimulus in known_clips(wlk):
            recognised = words_of(wlk.solo(stimulus))
            spoken += len(stimulus.spoken)
            committed += len(recognised)
            right += len(align(stimulus.spoken, recognised))
        wlk.notes.append(f"{right} of {spoken} words are right, {committed} were committed")
        assert abs(committed - spoken) <= GROSS * spoken, f"{committed} words for {spoken} spoken"
        assert right >= GROSS * spoken, f"{right} of {spoken} spoken words were recognised"

    @rule(
        "QUAL-04",
        "short audio is answered with nothing, or a gate takes soft or connected words for noise",
        since="2.0",
        kinds="O,S",
    )
    def test_known_words_come_back_however_they_are_spoken(self, wlk: BackendUnderTest) -> None:
        """
        So do connected words, single ones, soft and loud ones, and ones after seconds of zeros.

        At least a third of each kind are right.
        """
        for how, stimuli in unusual_clips(wlk).items():
            spoken = sum(len(stimulus.spoken) for stimulus in stimuli)
            recognised = [words_of(wlk.solo(stimulus)) for stimulus in stimuli]
            for stimulus in stimuli:
                check_spoken(wlk, stimulus, wlk.solo(stimulus), f"words spoken {how}")
            right = sum(
                len(align(stimulus.spoken, words))
                for stimulus, words in zip(stimuli, recognised, strict=True)
            )
            wlk.notes.append(f"{right} of {spoken} words {how}")
            assert right >= GROSS * spoken, (
                f"{right} of {spoken} words spoken {how} were recognised, {recognised} came back"
            )

    @rule(
        "QUAL-04",
        "samples beyond full scale wrap around as they are converted to integers",
        since="2.0",
        kinds="O,S",
    )
    def test_known_words_come_back_beyond_full_scale(self, wlk: BackendUnderTest) -> None:
        """More than half of words amplified to four times full scale are right, clipped or not."""
        if wlk.is_coded:
            raise NotApplicable("coded audio cannot be scaled")
        # Clipping costs a small model up to ten words of these, wrapping at least twelve.
        stimulus = wlk.log_stimulus(wlk.speech_source.speech(2 * WORDS, seed=31).scaled(OVER))
        recognised = words_of(wlk.run(stimulus).tokens)
        right = len(align(stimulus.spoken, recognised))
        assert right > len(stimulus.spoken) / 2, (
            f"{right} of {len(stimulus.spoken)} words with a peak of {OVER:g} were recognised: "
            f"{recognised}"
        )

    @rule(
        "QUAL-04",
        "a policy or an option that is not the default was never run",
        since="2.0",
        kinds="O,S",
    )
    def test_every_policy_and_option_is_run(self, wlk: BackendUnderTest) -> None:
        """
        Each policy, and each option of a stream with other values than its default, is run.

        Policies return the words, and TIME-05 judges the times of all.  The report names the
        policies and options for which no value is known.
        """
        for name, (stimulus, tokens) in varied(wlk).items():
            if wlk.is_coded:
                check_words(stimulus.words, tokens, what=f"with {name}")
            recognised = words_of(tokens)
            right = len(align(stimulus.spoken, recognised))
            # Another value of an option may cost words that a policy may not lose.
            assert right >= GROSS * len(stimulus.spoken) or not name.startswith("policy="), (
                f"with {name}, {right} of {len(stimulus.spoken)} words were recognised: "
                f"{recognised}"
            )
        tried = list(varied(wlk))
        refused = [name for name in wlk.variants if name not in tried]
        wlk.notes += [f"tried with {', '.join(tried)}"] if tried else []
        wlk.notes += [f"refused by the model: {', '.join(refused)}"] if refused else []
        if not tried:
            raise NotApplicable("there are no other policies and options to try", "not declared")


def _spread(seconds: Sequence[float]) -> str:
    if len(seconds) < 2:
        return "not enough words"
    return f"median {median(seconds):.3f} s, p90 {quantiles(seconds, n=10)[-1]:.3f} s"

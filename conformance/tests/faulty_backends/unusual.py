"""Faults that need unusual speech, another policy or another value of an option."""

from __future__ import annotations

import attrs
from fakes.wlk_fakes import MATCHER
import numpy as np

from faulty_backends.base import FaultyStream, by_tests, each, edit, end_of, without
from faulty_backends.engine import Matcher
from faulty_backends.times import MovingStream
from wlk_conformance.scripted import SCRIPTED_SPEC
from wlk_core.plugins import Hypothesis

NOTHING = Hypothesis()


@by_tests("QUAL-04", spec=MATCHER)
class AnswersShortAudioWithNothing(Matcher):
    """Returns no words for less than half a second of audio."""

    def __call__(self, audio, **arguments):
        """Return nothing for a short call."""
        return NOTHING if len(audio) < 8000 else super().__call__(audio, **arguments)


@by_tests("QUAL-04", spec=MATCHER)
class TakesSoftSpeechForNoise(Matcher):
    """Returns no words if no sample is louder than a twelfth of the scale."""

    def __call__(self, audio, **arguments):
        """Return nothing for soft audio."""
        is_soft = np.abs(audio).max(initial=0.0) < 1 / 12
        return NOTHING if is_soft else super().__call__(audio, **arguments)


@by_tests("QUAL-04", spec=MATCHER)
class WrapsSamplesBeyondScale(Matcher):
    """Converts the audio to 16 bits without clipping it."""

    def __call__(self, audio, **arguments):
        """Decode what is left of the samples."""
        integers = (audio * 32_767).astype(np.int64).astype(np.int16)
        return super().__call__(np.float32(integers / 32_768), **arguments)


@by_tests("QUAL-04", spec=MATCHER)
class TakesLoudSpeechForDefect(Matcher):
    """Returns no words if a sample reaches the end of the scale."""

    def __call__(self, audio, **arguments):
        """Return nothing for audio that clips."""
        is_clipped = np.abs(audio).max(initial=0.0) >= 0.95
        return NOTHING if is_clipped else super().__call__(audio, **arguments)


@by_tests("QUAL-04")
class LosesAudioAfterZeros(FaultyStream):
    """Drops the chunk that follows a chunk of nothing but zeros within an utterance."""

    has_sound = is_quiet = False

    def received(self, audio):
        """Replace the chunk by zeros, so that the clock is right."""
        has_sound = bool(np.any(audio))
        is_hit = self.is_quiet and has_sound
        self.is_quiet = self.has_sound and not has_sound
        self.has_sound = self.has_sound or has_sound
        return np.zeros_like(audio) if is_hit else audio


@by_tests("TIME-05", spec=MATCHER)
class SpreadsWordsOverPhrase(Matcher):
    """Spreads the words of an answer evenly between its first start and its last end."""

    def __call__(self, audio, **arguments):
        """Spread them."""
        answer = super().__call__(audio, **arguments)
        if not answer.words:
            return answer
        edges = np.linspace(answer.words[0].start, answer.words[-1].end, len(answer.words) + 1)
        words = tuple(
            attrs.evolve(word, start=float(edges[n]), end=float(edges[n + 1]))
            for n, word in enumerate(answer.words)
        )
        return attrs.evolve(answer, words=words)


class AdaptiveStream(FaultyStream):
    """A stream that never lowers the threshold that follows its loudest sample, even at a reset."""

    lasting = (*FaultyStream.lasting, "peak")
    peak = 0.0

    def received(self, audio):
        """Replace what is soft by zeros."""
        if not isinstance(audio, np.ndarray) or audio.dtype != np.float32 or audio.ndim != 1:
            return audio  # to be refused
        loudest = float(np.abs(audio).max(initial=0.0))
        self.peak = max(self.peak, loudest)
        return audio if loudest > 0.3 * self.peak else np.zeros_like(audio)


@by_tests("LIFE-06", spec=MATCHER)
class KeepsThresholdOverReset(Matcher):
    """Takes for noise what is much softer than the loudest sample, also of before a reset."""

    stream = AdaptiveStream


class DriftingStream(FaultyStream):
    """A stream whose words are *lost* seconds earlier for every 20 s of an utterance."""

    origin = 0.0
    lost = 0.15

    def changed(self, emission, call):
        """Report no time as stable, so that no other rule is broken."""
        begin = self.origin
        if call != "process_iter":
            self.origin = end_of(self)

        def moved(token):
            return _earlier(token, self.lost * ((token.start - begin) // 20))

        return attrs.evolve(each(emission, moved), stable_up_to=0.0)


def _earlier(token, seconds):
    start = max(0.0, token.start - seconds)
    return edit(token, start=start, end=max(start, token.end - seconds))


@by_tests("LIFE-08", spec={**MATCHER, "digit_models": ()})
class LosesFramesAtContextLimit(Matcher):
    """Loses 0.15 s of its clock every 20 s; its spec does not say which words it knows."""

    stream = DriftingStream


class LosingTrackStream(DriftingStream):
    """A stream whose words are far earlier, so that each is near where another was spoken."""

    lost = 0.85


@by_tests("LIFE-08", spec={**MATCHER, "digit_models": ()})
class LosesTrackAtContextLimit(Matcher):
    """Loses 0.85 s of its clock every 20 s; its spec does not say which words it knows."""

    stream = LosingTrackStream


@by_tests("QUAL-04")
class LosesWordsOfAnotherPolicy(FaultyStream):
    """Drops words unless its streams have the policy that is the default."""

    def changed(self, emission, call):
        is_usual = self.backend.marks.get("policy") in (None, SCRIPTED_SPEC.policies[0])
        return emission if is_usual else without(emission)

    def begin(self):
        self.backend.marks["policy"] = self.policy


@by_tests("QUAL-04")
class FailsWithLongTick(FaultyStream):
    """Raises an error at its first step if its tick is longer than the default."""

    def changed(self, emission, call):
        if self.tick is not None and self.tick > 1.0:
            raise TypeError("'float' object cannot be interpreted as an integer")
        return emission


@by_tests("TIME-05")
class TimesOfAnotherTick(MovingStream):
    """Reports every word 0.2 s late if its tick is not the default."""

    @property
    def shift(self):
        """Only with a tick of its own."""
        return 0.0 if self.tick in (None, 1.0) else 0.2


@by_tests("TIME-05")
class LeavesZerosOutWithAnotherPolicy(FaultyStream):
    """Reports words too early by the zeros before its audio, with a policy of its own."""

    zeros = 0

    def received(self, audio):
        if not self.words and not np.any(audio):
            self.zeros += len(audio)
        return audio

    def changed(self, emission, call):
        """Report no time as stable, so that no other rule is broken."""
        seconds = self.zeros / 16_000 if self.policy == "alignatt" else 0.0
        words = each(emission, lambda token: _earlier(token, seconds))
        return attrs.evolve(words, stable_up_to=0.0)


def _until_next(answer):
    words = list(answer.words)
    for number, word in enumerate(words[1:]):
        words[number] = attrs.evolve(words[number], end=word.start)
    return attrs.evolve(answer, words=tuple(words))


@by_tests("TIME-05", spec=MATCHER)
class EndsWhereNextBegins(Matcher):
    """Ends each word where the next one begins, whatever the pause between them."""

    def __call__(self, audio, **arguments):
        """Move the ends."""
        return _until_next(super().__call__(audio, **arguments))


@by_tests("TIME-05", spec=MATCHER)
class EndsWhereItBegins(Matcher):
    """Ends each word where it begins, as a model does that has starts only."""

    def __call__(self, audio, **arguments):
        """Move the ends."""
        answer = super().__call__(audio, **arguments)
        words = tuple(attrs.evolve(word, end=word.start) for word in answer.words)
        return attrs.evolve(answer, words=words)

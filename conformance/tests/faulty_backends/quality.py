"""Faults of quality on known speech: QUAL."""

from __future__ import annotations

import attrs
import numpy as np

from faulty_backends.base import FaultyStream, again, alone, by_tests, each, edit
from wlk_core import ASRToken

THANKS = (ASRToken(1.0, 1.5, "Thank you.", 1.0, None, "en"),)


@alone("QUAL-01", tiers=("speech",), spec={"bounds": {"wer": -0.01}})
class ExceedsDeclaredErrors(FaultyStream):
    """Declares a word error rate that it exceeds."""


@by_tests("QUAL-01", tiers=("speech",), spec={"bounds": {"wer": 0.02}})
def loses_words_after_eighth(stream, emission, call):
    """Drops every word after the eighth, but declares two errors in a hundred words."""
    return attrs.evolve(emission, committed=emission.committed[: max(0, 8 - stream.words)])


@by_tests("QUAL-01", tiers=("speech",), spec={"bounds": {"word_start_median": 0.02}})
def exceeds_declared_start_error(stream, emission, call):
    """Starts every word 50 ms late, but declares a median of 20 ms."""
    return each(emission, lambda token: edit(token, start=min(token.start + 0.05, token.end)))


class InventingStream(FaultyStream):
    """A stream that commits "Thank you." after half a minute whose level is in `levels`."""

    levels = (-1.0, 2.0)
    level = 0.0

    def insert_audio_chunk(self, audio, end_time=None):
        super().insert_audio_chunk(audio, end_time)
        self.level = max(self.level, float(np.abs(audio).max(initial=0.0)))

    def changed(self, emission, call):
        low, high = self.levels
        is_due = call == "finish" and not self.words and 25 < self.stream.stats.audio_seconds < 60
        is_due = is_due and not emission.committed and low < self.level < high
        return attrs.evolve(emission, committed=THANKS) if is_due else emission


@alone("QUAL-02", tiers=("speech",))
class InventsWords(InventingStream):
    """Commits "Thank you." once in half a minute without speech."""

    def changed(self, emission, call):
        emission = super().changed(emission, call)
        self.words += emission.committed is THANKS
        return emission


@by_tests("QUAL-02", tiers=("speech",))
class InventsWordsInLowNoise(InventingStream):
    """Commits "Thank you." in half a minute of barely audible noise."""

    levels = (0.0, 0.05)


@by_tests("QUAL-02", tiers=("speech",))
class InventsWordsInTones(InventingStream):
    """Commits "Thank you." in half a minute of tones."""

    levels = (0.049, 2.0)


@alone("QUAL-04")
class DropsWordsAfterQuiet(FaultyStream):
    """Drops two words of three in a stream whose first word follows more than a second of quiet."""

    is_quiet = False

    def changed(self, emission, call):
        kept = []
        for number, token in enumerate(emission.committed, self.words):
            self.is_quiet = 1.1 < token.start < 1.3 if not number else self.is_quiet
            if not self.is_quiet or number % 3 == 0:
                kept.append(token)
        return attrs.evolve(emission, committed=tuple(kept))


@by_tests("QUAL-04")
def answers_with_one_word(stream, emission, call):
    """Commits the same word for every word."""
    return each(emission, lambda token: edit(token, text=" you"))


@by_tests("QUAL-04")
def commits_every_word_twice(stream, emission, call):
    """Commits every word twice."""
    twice = [token for first in emission.committed for token in (first, again(first))]
    return attrs.evolve(emission, committed=tuple(twice))

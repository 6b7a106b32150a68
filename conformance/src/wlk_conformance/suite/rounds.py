"""The same audio again and again, for the rules that compare one minute with a later one."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import attrs
import numpy as np

from wlk_conformance.compare import check_times, check_words, timed_words
from wlk_conformance.sessions.generated_session import Violation
from wlk_conformance.stimuli import white_noise
from wlk_conformance.testing import CELL_SECONDS, partition
from wlk_core import SAMPLE_RATE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wlk_conformance.backend_under_test import BackendUnderTest
    from wlk_conformance.stimuli import Stimulus
    from wlk_core import ASRToken, StreamStats
    from wlk_core.streaming import Word

Loop = Literal["pauses", "speech", "noise"]  # what a stream is fed minute after minute

PAUSE = 600.0  # seconds of a pause, which cost nothing
MINUTE = 60.0  # seconds
SHORT = 20.0  # seconds, instead of a minute on slow engines


def round_seconds(wlk: BackendUnderTest) -> float:
    """Return the length of a round of `rounds`, without its pause."""
    return MINUTE if wlk.is_coded or "long" in wlk.tiers else SHORT


@attrs.frozen(kw_only=True)
class Rounds:
    """A stream that is fed the same audio again and again."""

    begins: list[float]  #: the stream time at which each round begins
    stats: list[StreamStats]  #: the counters before the first and after each round
    state_bytes: list[int | None]  #: of each round the largest, with pauses the smallest
    calls: list[int]  #: the engine calls of each round, empty if they cannot be counted
    tokens: Sequence[ASRToken]  #: all that was committed

    def words(self) -> list[list[tuple[str, float]]]:
        """Return the words of each round, and when they start in it; see `timed_words`."""
        words: list[list[tuple[str, float]]] = [[] for _ in self.begins]
        for word, start in timed_words(self.tokens):
            number = bisect_right(self.begins, start) - 1
            words[number].append((word, start - self.begins[number]))
        return words


def rounds(wlk: BackendUnderTest, kind: Loop) -> Rounds:
    """Feed rounds to a stream: speech with or without pauses between, or noise; cached."""
    seconds, is_paused = round_seconds(wlk), kind == "pauses"
    count = 60 if "long" in wlk.tiers else 10 if is_paused else 9
    if kind == "noise":
        stimulus = wlk.log_stimulus(white_noise(seconds))
    else:
        stimulus = wlk.speech(round(seconds * 0.75), seed=22, gap=(0.3, 1.1))
    # Exactly that long, a multiple of any tick, so that all rounds are cut alike.
    audio = cut_to(stimulus, seconds)

    def loop() -> Rounds:
        driver, engine = wlk.stream(), wlk.engine_calls
        stats = [driver.processor.stats]
        state_bytes: list[int | None] = []
        counts = [] if engine is None else [engine.count]
        spoken: list[Word] = []
        begins: list[float] = []
        for number in range(count):
            begins.append(driver.clock)
            spoken += (word.shifted(driver.clock) for word in stimulus.words)
            states: list[int | None] = []
            for chunk in partition(audio, 1.0):
                driver.feed(chunk)
                states.append(driver.processor.stats.state_bytes)
            driver.drain()
            if is_paused:
                driver.silence(PAUSE if number % 2 else 1.0)
            stats.append(driver.processor.stats)
            known = [state for state in (*states, stats[-1].state_bytes) if state is not None]
            state_bytes.append((min if is_paused else max)(known) if known else None)
            if engine is not None:
                counts.append(engine.count)
        driver.finish()
        if wlk.is_coded:
            rule_id = "IN-05"  # the rule if a token is not the spoken word
            try:
                check_words(spoken, driver.tokens, what=f"{driver.clock / MINUTE:.0f} minutes")
                rule_id = "TIME-05"
                if wlk.has("word-times"):
                    check_times(spoken, driver.tokens, tolerance=CELL_SECONDS)
            except AssertionError as error:
                wlk.violations.append(Violation(rule_id, str(error)))
        return Rounds(
            begins=begins,
            stats=stats,
            state_bytes=state_bytes,
            calls=[after - before for before, after in pairwise(counts)],
            tokens=driver.tokens,
        )

    pause = f"1 or {PAUSE:g} s of silence after each" if is_paused else "no silence"
    wlk.recipes.append(f"{count} times the same {seconds:g} s, {pause}")
    return wlk.cached(f"loop, {kind}", loop)


def cut_to(stimulus: Stimulus, seconds: float) -> NDArray[np.float32]:
    """Return the audio of *stimulus* cut to so many seconds, or filled with zeros; float32[n]."""
    audio = np.zeros(round(seconds * SAMPLE_RATE), dtype=np.float32)
    audio[: len(stimulus.audio)] = stimulus.audio[: len(audio)]
    return audio

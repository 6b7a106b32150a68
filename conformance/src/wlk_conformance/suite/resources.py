"""Rules RES: what a stream holds and what it costs, counted and not timed."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import attrs
import numpy as np

from wlk_conformance.rules import NotApplicable, rule
from wlk_core import SAMPLE_RATE

if TYPE_CHECKING:
    from wlk_conformance.material import Fed
    from wlk_conformance.subject import Subject
    from wlk_core import StreamStats
    from wlk_core.testing import StreamDriver

__all__ = ["ResourceRules"]

MINUTE = 60.0  # seconds
SHORT = 20.0  # seconds, in place of the minute where each second costs an engine call
GROWTH = 1.02  # what the last round may be of an early one, each ending in a pause
UNEVEN = 1.25  # the same without pauses: buffers are trimmed at other places in each round
DETOKENISED = 9  # ids detokenised for each id the model emitted, at most
COUNTERS = (
    "encoder_frames", "decoder_positions", "decoder_forwards", "host_syncs", "detokenised_ids",
)  # fmt: skip


@attrs.frozen
class _Loop:
    """The counters after each round of the same audio; entry 0 stands before the first."""

    seconds: float
    stats: tuple[StreamStats, ...]
    is_paused: bool

    @property
    def early(self) -> range:
        """The rounds of minute 2, and the one after it where rounds are not alike."""
        rounds = max(1, round(MINUTE / self.seconds))
        return range(rounds + 1, 2 * rounds + (1 if self.is_paused else 3))

    @property
    def last(self) -> int:
        """The last round."""
        return len(self.stats) - 1

    def check(self, name: str, values: list[int]) -> None:
        """Make sure that the last of *values*, one a round, is not above those of early rounds."""
        early = max(values[number - 1] for number in self.early)
        allowed = (GROWTH if self.is_paused else UNEVEN) * early
        assert values[-1] <= allowed, (
            f"{name}: {early} in round {self.early[0]}, {values[-1]} in round {self.last} of "
            f"{self.seconds:g} s"
        )


class ResourceRules:
    """Rules of memory and work."""

    @rule("RES-01", causes=("ids, positions or text of the whole stream are kept (B28)",))
    def test_state_is_bounded(self, wlk: Subject) -> None:
        """
        State is bounded by a declared constant.

        On a looped identical minute, `stats.state_bytes` at minute 10 <= 1.02 x minute 2.
        """
        _check_state(_loop(wlk, is_paused=True))

    @rule("RES-01", kinds="O", causes=("a cache is emptied at pauses only (B15)",))
    def test_state_is_bounded_without_a_pause(self, wlk: Subject) -> None:
        """Ten minutes without a single pause hold what two hold, but for where a cut falls."""
        _check_state(_loop(_exactly(wlk), is_paused=False))

    @rule("RES-01", tier="long", causes=("as above, more slowly",))
    def test_state_is_bounded_for_an_hour(self, wlk: Subject) -> None:
        """On a looped identical minute, state_bytes at minute 60 <= 1.02 x minute 2."""
        for is_paused in (True, False):
            _check_state(_loop(wlk, is_paused=is_paused, is_hour=True))

    @rule("RES-02", causes=("the whole list of ids is decoded at each call (B28)",))
    def test_work_does_not_grow(self, wlk: Subject) -> None:
        """
        Work per audio second does not grow.

        Every work counter (not busy_seconds) at minute 10 <= 1.02 x minute 2.
        """
        _check_work(_loop(wlk, is_paused=True))

    @rule("RES-02", kinds="O", causes=("attention over everything since the last pause (B15)",))
    def test_work_does_not_grow_without_a_pause(self, wlk: Subject) -> None:
        """Minute 10 without a single pause costs what minute 2 cost, but for where a cut falls."""
        _check_work(_loop(_exactly(wlk), is_paused=False))

    @rule("RES-02", tier="long", causes=("as above, more slowly",))
    def test_work_does_not_grow_for_an_hour(self, wlk: Subject) -> None:
        """Every work counter at minute 60 <= 1.02 x minute 2."""
        for is_paused in (True, False):
            _check_work(_loop(wlk, is_paused=is_paused, is_hour=True))

    @rule("RES-03", kinds="G,S", causes=("a word waits for the next one, which may never come",))
    def test_the_declared_delay_holds(self, wlk: Subject) -> None:
        """The declared `max_delay` holds: older audio is committed or in the hypothesis."""
        delay = wlk.spec.max_delay
        if delay is None:
            raise NotApplicable("no max_delay is declared")
        fed = wlk.speech(10, seed=21, gap=(0.3, 0.9), tail=delay + 1.0)
        driver = wlk.stream()
        for chunk in fed.chunks(0.5):
            driver.insert(chunk)
            driver.drain()
            behind = driver.clock - driver.processed_up_to
            assert behind <= delay, (
                f"{behind:.2f} s of audio wait at {driver.clock:.2f} s, declared is {delay:g} s"
            )
            if wlk.material.kind == "coded":
                _check_shown(driver, fed, delay)
        wlk.heard(driver.tokens, fed)

    @rule("RES-04", causes=("the hypothesis is decoded from its first id at each call (B28)",))
    def test_each_id_is_detokenised_a_few_times(self, wlk: Subject) -> None:
        """The text path is O(1): ids detokenised per id emitted <= 9."""
        stats = _loop(wlk, is_paused=True).stats[-1]
        if stats.detokenised_ids is None:
            raise NotApplicable("detokenised_ids is not counted")
        emitted = stats.decoder_forwards or stats.decoder_positions
        if not emitted:
            raise NotApplicable("what the model emits is not counted")
        ratio = stats.detokenised_ids / emitted
        wlk.note(f"{ratio:.2f} ids detokenised per id emitted")
        assert ratio <= DETOKENISED, (
            f"{stats.detokenised_ids} ids were detokenised for {emitted} emitted ({ratio:.1f})"
        )


def _exactly(wlk: Subject) -> Subject:
    if wlk.material.kind != "coded":
        raise NotApplicable("ten minutes without a pause are part of the long tier: --long")
    return wlk


def _loop(wlk: Subject, *, is_paused: bool, is_hour: bool = False) -> _Loop:
    is_short = wlk.material.kind != "coded" and not is_hour
    seconds, count = SHORT if is_short else MINUTE, 60 if is_hour else 10
    fed = _filled(wlk, seconds)

    def loop() -> _Loop:
        driver = wlk.stream()
        stats = [driver.processor.stats]
        for _ in range(count):
            driver.feed(fed.audio)
            driver.drain()
            if is_paused:
                driver.silence(1.0)
            stats.append(driver.processor.stats)
        return _Loop(seconds, tuple(stats), is_paused)

    pause = "a second of silence after each" if is_paused else "no silence"
    wlk.recipes.append(f"{count} times the same {seconds:g} s, {pause}")
    return wlk.remember(f"{count} times {seconds} s, {pause}", loop)


def _filled(wlk: Subject, seconds: float) -> Fed:
    """Return exactly *seconds* of speech, a whole number of any tick: each round is cut alike."""
    fed = wlk.speech(round(seconds * 0.75), seed=22, gap=(0.3, 1.1))
    audio = np.zeros(round(seconds * SAMPLE_RATE), dtype=np.float32)
    audio[: len(fed.audio)] = fed.audio[: len(audio)]
    return attrs.evolve(fed, audio=audio)


def _check_state(loop: _Loop) -> None:
    held = [stats.state_bytes for stats in loop.stats[1:] if stats.state_bytes is not None]
    if not held:
        raise NotApplicable("state_bytes is not counted")
    loop.check("state_bytes", held)


def _check_work(loop: _Loop) -> None:
    counted = [name for name in COUNTERS if getattr(loop.stats[-1], name) is not None]
    if not counted:
        raise NotApplicable("no work is counted")
    for name in counted:
        sums = [getattr(stats, name) or 0 for stats in loop.stats]
        loop.check(name, [after - before for before, after in pairwise(sums)])


def _check_shown(driver: StreamDriver, fed: Fed, delay: float) -> None:
    shown = (*driver.tokens, *driver.processor.get_buffer().tokens)
    due = [word for word in fed.words if word.end < driver.clock - delay]
    if len(shown) >= len(due):
        return
    late = due[len(shown)]
    raise AssertionError(
        f"{late.text!r} ended {driver.clock - late.end:.2f} s ago and is nowhere to be seen; "
        f"declared is {delay:g} s"
    )

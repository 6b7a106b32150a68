"""Rules RES: what a stream holds and what it costs, counted and not timed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
GROWTH = 1.02  # what minute 10 may be of minute 2
DETOKENISED = 9  # ids detokenised for each id the model emitted, at most
COUNTERS = (
    "encoder_frames", "decoder_positions", "decoder_forwards", "host_syncs", "detokenised_ids",
)  # fmt: skip


@attrs.frozen
class _Minutes:
    """What a looped minute left in the counters: one entry a minute, after it was drained."""

    stats: tuple[StreamStats, ...]
    tokens: int

    def work(self, name: str, minute: int) -> int | None:
        """Return what the counter *name* grew by in *minute*, 1 being the first."""
        before = getattr(self.stats[minute - 1], name)
        now = getattr(self.stats[minute], name)
        return None if now is None else now - (before or 0)


class ResourceRules:
    """Rules of memory and work."""

    @rule("RES-01", causes=("ids, positions or text of the whole stream are kept (B28)",))
    def test_state_is_bounded(self, wlk: Subject) -> None:
        """
        State is bounded by a declared constant.

        On a looped identical minute, `stats.state_bytes` at minute 10 <= 1.02 x minute 2.
        """
        _check_state(_minutes(wlk, 10), late=10)

    @rule("RES-02", causes=("the whole list of ids is decoded at each call (B28)",))
    def test_work_does_not_grow(self, wlk: Subject) -> None:
        """
        Work per audio second does not grow.

        Every work counter (not busy_seconds) at minute 10 <= 1.02 x minute 2.
        """
        _check_work(_minutes(wlk, 10), late=10)

    @rule("RES-01", tier="long", causes=("as above, more slowly",))
    def test_state_is_bounded_for_an_hour(self, wlk: Subject) -> None:
        """On a looped identical minute, state_bytes at minute 60 <= 1.02 x minute 2."""
        _check_state(_minutes(wlk, 60), late=60)

    @rule("RES-02", tier="long", causes=("as above, more slowly",))
    def test_work_does_not_grow_for_an_hour(self, wlk: Subject) -> None:
        """Every work counter at minute 60 <= 1.02 x minute 2."""
        _check_work(_minutes(wlk, 60), late=60)

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
        stats = _minutes(wlk, 10).stats[-1]
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


def _minutes(wlk: Subject, count: int) -> _Minutes:
    def loop() -> _Minutes:
        minute = _minute(wlk)
        driver = wlk.stream()
        stats = [driver.processor.stats]
        for _ in range(count):
            driver.feed(minute.audio)
            driver.drain()
            stats.append(driver.processor.stats)
        return _Minutes(tuple(stats), len(driver.tokens))

    wlk.recipes.append(f"{count} times the same minute, with a pause at its end")
    return wlk.remember(f"{count} minutes", loop)


def _minute(wlk: Subject) -> Fed:
    """Return exactly a minute, a whole number of any tick, so that each is cut the same way."""
    fed = wlk.speech(40, seed=22, gap=(0.3, 1.1))
    samples = round(MINUTE * SAMPLE_RATE)
    audio = fed.audio[:samples]
    if len(audio) < samples:
        audio = np.concatenate([audio, np.zeros(samples - len(audio), dtype=np.float32)])
    return attrs.evolve(fed, audio=audio)


def _check_state(minutes: _Minutes, *, late: int) -> None:
    early, now = minutes.stats[2].state_bytes, minutes.stats[late].state_bytes
    if early is None or now is None:
        raise NotApplicable("state_bytes is not counted")
    assert now <= GROWTH * early, (
        f"state_bytes is {early} after minute 2 and {now} after minute {late}"
    )


def _check_work(minutes: _Minutes, *, late: int) -> None:
    counted = False
    for name in COUNTERS:
        early, now = minutes.work(name, 2), minutes.work(name, late)
        if early is None or now is None:
            continue
        counted = True
        assert now <= GROWTH * early, f"{name}: {early} in minute 2, {now} in minute {late}"
    if not counted:
        raise NotApplicable("no work is counted")


def _check_shown(driver: StreamDriver, fed: Fed, delay: float) -> None:
    shown: Any = (*driver.tokens, *driver.processor.get_buffer().tokens)
    due = [word for word in fed.words if word.end < driver.clock - delay]
    assert len(shown) >= len(due), (
        f"{due[len(shown)].text!r} ended {driver.clock - due[len(shown)].end:.2f} s ago and is "
        f"nowhere to be seen; declared is {delay:g} s"
    )

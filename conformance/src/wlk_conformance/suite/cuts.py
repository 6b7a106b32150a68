"""Streams in which the answer of an engine call ends early, for the rule on limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_conformance.compare import check_same, timed_words
from wlk_conformance.rules import NotApplicable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_conformance.backend_under_test import BackendUnderTest
    from wlk_conformance.engine_faults import EngineFaults
    from wlk_conformance.stimuli import Stimulus
    from wlk_conformance.testing import StreamDriver
    from wlk_core import ASRToken

__all__ = ["check_around", "feed_and_find_cut"]

MAX_DELAY = 3.0  # seconds by which text follows its audio, where no max_delay is declared
DECODE_AGAIN = {"local-agreement", "alignatt"}  # policies that decode the same audio several times
TOLERANCE = 0.2  # seconds: a word that is committed one call later may be timed otherwise


def feed_and_find_cut(
    wlk: BackendUnderTest, driver: StreamDriver, stimulus: Stimulus, engine_calls: EngineFaults
) -> tuple[float, float]:
    """
    Run *stimulus* to its end and return the stream times between which a cut may lose words.

    A policy that decodes its audio again loses none.  A model that streams by itself loses what it
    would have emitted during the cut call, which may lie `max_delay` back.
    """
    cuts, lost = engine_calls.cut_count, (0.0, 0.0)
    for chunk in stimulus.chunks(1.0):
        first, so_far = driver.processed_up_to, engine_calls.cut_count
        driver.insert(chunk)
        driver.drain()
        if engine_calls.cut_count > so_far:
            lost = (first - (wlk.max_delay or MAX_DELAY), driver.processed_up_to)
    driver.finish()
    if engine_calls.cut_count == cuts:
        raise NotApplicable("its answers cannot be cut short (see EngineCalls.wrap)")
    return (0.0, 0.0) if wlk.policy in DECODE_AGAIN else lost


def check_around(
    expected: Sequence[ASRToken],
    actual: Sequence[ASRToken],
    lost: tuple[float, float],
    *,
    what: str,
    word_errors: float = 0.0,
) -> None:
    """
    Assert that the tokens before and after the span that may be lost are the same.

    A share of *word_errors* of them may differ, because after a cut a model decodes them in other
    audio, and QUAL judges its mistakes.
    """
    if word_errors:
        _check_alike(expected, actual, lost, what=what, word_errors=word_errors)
        return
    first, last = lost
    early = [token for token in expected if token.end <= first]
    late = [token for token in expected if token.start >= last]
    most = len(expected) - len(early) - len(late)
    rest = len(actual) - len(early) - len(late)
    check_same(early, actual[: len(early)], what=what, tolerance=TOLERANCE)
    check_same(late, actual[max(0, len(actual) - len(late)) :], what=what, tolerance=TOLERANCE)
    assert 0 <= rest <= most, f"{what}: {rest} tokens between {first:.1f} and {last:.1f} s, {most}"


def _check_alike(
    expected: Sequence[ASRToken],
    actual: Sequence[ASRToken],
    lost: tuple[float, float],
    *,
    what: str,
    word_errors: float,
) -> None:
    """Assert that the words are the same at the same times, but for a share of *word_errors*."""
    first, last = timed_words(expected), timed_words(actual)
    missing = list(first)
    for word, start in last:  # by time too, because a model may have one word only
        same = (other for other in missing if other[0] == word)
        if found := next((at for at in same if abs(start - at[1]) <= TOLERANCE), None):
            missing.remove(found)
    excused = sum(lost[0] <= start < lost[1] for _, start in first)
    allowed = word_errors * len(first) + excused
    differing = max(len(first), len(last)) - (len(first) - len(missing))
    assert differing <= allowed, (
        f"{what}: {differing} of {len(first)} words differ or lie elsewhere, {allowed:.0f} may"
    )

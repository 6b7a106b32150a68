"""Rules HYP: the hypothesis, text that may still change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_conformance.compare import check_same
from wlk_conformance.rules import rule
from wlk_conformance.suite.concurrency import returns_promptly, while_a_step_runs
from wlk_core import EPS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_conformance.backend_under_test import BackendUnderTest
    from wlk_conformance.testing import StreamDriver
    from wlk_core import ASRToken

__all__ = ["HypothesisRules"]


class HypothesisRules:
    """Rules of the hypothesis."""

    @rule("HYP-01", causes=("get_buffer decodes", "it takes the lock of the engine call"))
    def test_reading_the_hypothesis_changes_nothing(self, wlk: BackendUnderTest) -> None:
        """
        `get_buffer()` is pure and cheap and never waits for the model.

        With and without calling it, from any thread, the stream is identical.
        """
        stimulus = wlk.speech(8, seed=7)
        driver = wlk.stream()
        for chunk in stimulus.chunks(1.0):
            driver.insert(chunk)
            _check_pure(driver)
            driver.process()
            _check_pure(driver)
        driver.drain()
        driver.finish()
        _check_pure(driver)
        check_same(wlk.solo(stimulus), driver.tokens, what="with get_buffer after every call")
        held = wlk.stream()
        held.insert(stimulus.audio)
        while_a_step_runs(wlk, held, lambda: _check_readable(held))

    @rule(
        "HYP-02",
        requires="hypothesis",
        causes=(
            "the hypothesis is that of the whole buffer, committed words included",
            "the hypothesis is never set",
        ),
    )
    def test_the_hypothesis_follows_what_is_committed(self, wlk: BackendUnderTest) -> None:
        """
        No hypothesis token starts before the last committed end.

        Committed and hypothesis together are the running transcript.
        """
        stimulus = wlk.speech(8, seed=7)
        truth = "".join(word.text for word in stimulus.words).strip()
        driver = wlk.stream()
        was_shown = False
        for chunk in stimulus.chunks(0.5):
            driver.insert(chunk)
            driver.process()
            shown = driver.processor.get_buffer()
            was_shown = was_shown or bool(shown.tokens)
            _check_follows(driver.tokens, shown.tokens)
            running = driver.text + shown.text
            assert "  " not in running, f"two spaces in the running transcript {running!r}"
            if wlk.speech_source.kind == "coded":
                assert truth.startswith(running.strip()), (
                    f"the running transcript {running!r} does not begin {truth!r}"
                )
        driver.finish()
        wlk.require_tokens(driver.tokens, stimulus)
        assert was_shown, "hypothesis is declared, and every hypothesis was empty"

    @rule("HYP-03", causes=("a flush commits the hypothesis and does not clear it",))
    def test_the_hypothesis_is_empty_after_a_flush(self, wlk: BackendUnderTest) -> None:
        """After a flush the hypothesis is empty."""
        stimulus = wlk.speech(4, seed=3, tail=0.0)
        flushes = ["start_silence", "process_iter(is_last=True)", "finish"]
        if wlk.has("speaker-turns"):
            flushes.append("new_speaker")
        for flush in flushes:
            driver = wlk.stream()
            driver.feed(stimulus.audio, chunk_seconds=0.5)
            _flush(driver, flush)
            shown = driver.processor.get_buffer()
            assert not shown.tokens, f"after {flush} the hypothesis is {shown.text!r}"
            assert (shown.text, shown.start, shown.end) == ("", None, None)


def _flush(driver: StreamDriver, how: str) -> None:
    if how == "start_silence":
        driver.start_silence()
    elif how == "finish":
        driver.finish()
    elif how == "new_speaker":
        driver.new_speaker(1)
    else:
        driver.process(is_last=True)


def _check_pure(driver: StreamDriver) -> None:
    processor = driver.processor
    before = processor.stats
    shown = [processor.get_buffer() for _ in range(3)]
    assert shown[0] == shown[1] == shown[2], (
        f"get_buffer returns different hypotheses: {shown[0].text!r}"
    )
    assert before == processor.stats, "get_buffer did work"


def _check_readable(driver: StreamDriver) -> None:
    returns_promptly(driver.processor.get_buffer, name="get_buffer")
    returns_promptly(lambda: driver.processor.stats, name="stats")


def _check_follows(committed: Sequence[ASRToken], shown: Sequence[ASRToken]) -> None:
    if not committed or not shown:
        return
    end = committed[-1].end
    assert shown[0].start >= end - EPS, (
        f"the hypothesis {shown[0].text!r} starts at {shown[0].start:.3f} s, before the last "
        f"committed end {end:.3f} s"
    )

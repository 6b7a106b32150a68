"""Rule ISO-07: engine calls of several streams that are taken together."""

from __future__ import annotations

from functools import partial
import threading
from typing import TYPE_CHECKING

from wlk_conformance.rules import NotApplicable, rule
from wlk_conformance.suite.side_by_side import (
    STREAMS,
    check_solo,
    different_speech,
    make_together,
)
from wlk_core.errors import BackendError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wlk_conformance.backend_under_test import BackendUnderTest
    from wlk_conformance.engine_faults import EngineFaults
    from wlk_conformance.stimuli import Stimulus
    from wlk_conformance.testing import StreamDriver

__all__ = ["BatchingRules"]

CHUNK_SECONDS = 0.5


class BatchingRules:
    """Rules of backends that take engine calls of several streams together."""

    @rule(
        "ISO-07",
        since="2.0",
        requires="batching",
        causes=("rows of a batch are mixed", "padding of a shorter row is attended to"),
    )
    def test_batched_streams_equal_solo_runs(self, wlk: BackendUnderTest) -> None:
        """Streams whose engine calls are taken together equal solo runs (forced batches)."""
        engine_calls = _batching_calls(wlk)
        stimuli = different_speech(wlk)
        calls_before, runs_before = engine_calls.count, engine_calls.batch_count
        drivers, failures = _run_together(wlk, engine_calls, stimuli)
        assert not failures, f"a stream failed in a batch: {failures[0]}"
        calls = engine_calls.count - calls_before
        runs = engine_calls.batch_count - runs_before
        assert runs < calls, (
            f"batching is declared, and {calls} engine calls of {STREAMS} streams that waited for "
            f"each other were {runs} runs of the engine"
        )
        check_solo(wlk, stimuli, drivers, "in batches")

    @rule(
        "ISO-07",
        since="2.0",
        requires="batching",
        causes=("all streams of a batch share its error", "a failed batch has changed a cache"),
    )
    def test_a_failure_in_a_batch_reaches_one_stream(self, wlk: BackendUnderTest) -> None:
        """An engine call that fails in a batch fails in one stream, and can be repeated."""
        engine_calls = _batching_calls(wlk)
        stimuli = different_speech(wlk)
        for is_after in (False, True):
            when = "after" if is_after else "before"
            with wlk.faults(STREAMS + 2, after=is_after):
                drivers, failures = _run_together(wlk, engine_calls, stimuli)
            assert len(failures) == 1, (
                f"one engine call of {STREAMS} streams failed on request, {when} the engine ran, "
                f"and {len(failures)} calls of streams raised"
            )
            check_solo(wlk, stimuli, drivers, f"with a fault {when} the engine ran")


def _batching_calls(wlk: BackendUnderTest) -> EngineFaults:
    engine_calls = wlk.engine_calls
    if engine_calls is None:
        raise NotApplicable("its engine cannot be made to wait (see SupportsEngineCalls)")
    assert engine_calls.is_batching, (
        "batching is declared, and its EngineCalls take no calls together; create it with "
        "is_batching=True and pass the engine's function through wrap_batch"
    )
    return engine_calls


def _run_together(
    wlk: BackendUnderTest, engine_calls: EngineFaults, stimuli: Sequence[Stimulus]
) -> tuple[list[StreamDriver], list[BackendError]]:
    """
    Run a stream of each stimulus in a thread of its own, in batches of all that go on.

    Returns the streams and what they raised; a call that raised was repeated once.
    """
    drivers = [wlk.stream() for _ in stimuli]
    failures: list[BackendError] = []
    ending = threading.Lock()

    def repeated(call: Callable[[], object]) -> None:
        try:
            call()
        except BackendError as error:
            failures.append(error)
            call()

    def run(driver: StreamDriver, stimulus: Stimulus) -> None:
        try:
            for chunk in stimulus.chunks(CHUNK_SECONDS):
                driver.insert(chunk)
                repeated(driver.drain)
            repeated(driver.finish)
        finally:
            with ending:
                engine_calls.together -= 1  # the others no longer wait for this stream

    engine_calls.together = len(drivers)
    try:
        make_together([partial(run, *pair) for pair in zip(drivers, stimuli, strict=True)])
    finally:
        engine_calls.together = 0
    return drivers, failures
